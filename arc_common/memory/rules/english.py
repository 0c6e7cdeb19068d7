"""English: how people state facts, whatever the facts are about.

The patterns look for grammar (negated modals, imperatives, possessives, copulas, conditions, changes of state) and
for a few closed classes of words (kinship, units, number words); what the clause is about is left to the clause.
"""

import re

from arc_common.memory.facts import FactCategory
from arc_common.memory.rules.signal import Signal

__all__ = ["ASSISTANT", "CHIT_CHAT", "JOINER", "LEAD_INS", "LISTENER", "PROPER_NAME", "QUESTION", "REQUEST", "SIGNALS"]


def _signal(name: str, category: FactCategory, weight: float, pattern: str, *, cased: bool = False) -> Signal:
    return Signal(name, category, weight, re.compile(pattern, 0 if cased else re.IGNORECASE))


_KIN = (
    r"mum|mom|mother|dad|father|parents?|sister|brother|son|daughter|kids?|child|children|baby|toddler|little one|eldest|youngest|twins?|wife|husband|spouse|partner"
    r"|fiancée?|boyfriend|girlfriend|grandma|grandpa|grandmother|grandfather|granny|aunt|uncle|cousin|niece|nephew|in-laws?"
    r"|(?:mother|father|brother|sister)-in-law|step\w{3,8}|boss|manager|supervisor|colleague|coworker|co-worker|teammate|assistant|landlord|landlady|tenant|roommate|flatmate|housemate"
    r"|neighbou?rs?|doctor|gp|dentist|vet|lawyer|accountant|teacher|tutor|coach|professor|therapist|client|customer|dog|cat|puppy|kitten|horse|rabbit|parrot|hamster"
)
_BE = r"(?:is|are|was|were|am|isn't|aren't|wasn't|weren't|'s|'re|'m)"
_NUMBER_WORD = (
    r"two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen"
    r"|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand|a dozen|half a dozen|dozens|a couple of|a pair of|half a|twice|double|triple"
)
_DAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?"
_MONTH = r"January|February|March|April|June|July|August|September|October|November|December"
_NOT_PROHIBITED = r"(?!worry|know|mind|think|care|get me wrong|understand|hesitate|remember|believe|see why|be sorry|have to|need to|want to|really|feel|even|quite)"

LEAD_INS = re.compile(
    r"^(?:"
    r"(?:no|nope|yes|yeah|yep|look|listen|see|right|fine|great|now|sure|well|sorry|thanks|thank you|good (?:morning|evening|afternoon)|perfect|cool|nice|alright|look here)[,.;:!—–-]+\s+"
    r"|(?:oh|hi|hey|hello|so|and|but|also|plus|anyways?|anyhow|okay|ok|um+|uh+|ah|hmm+|actually|honestly|basically|unfortunately|apparently"
    r"|by the way|btw|fyi|one (?:more|last) thing|another thing|before i forget|just so you know|for the record|for what it's worth"
    r"|(?:as|like) i said|to be (?:clear|honest)|in fact|mind you|also note|for (?:context|reference)|in case it helps)(?=[\s,.:;!—–-])[\s,.:;!—–-]{1,4}"
    r"|(?:i (?:think|guess|believe|suppose|mean|should mention|should add|forgot to (?:say|mention)|wanted to (?:say|mention)|have to say|must say)"
    r"|(?:just |please )?(?:note|remember|keep in mind|bear in mind|be aware)|the (?:thing|point) is|(?:it )?turns out|what matters is)(?: that|,)?\s(?=(?:i|we|my|our|the|it|he|she|they|you)\b)"
    r"|(?:can|could|would|will) you (?:please |also |just |maybe |possibly )?(?=\w))",
    re.IGNORECASE,
)
"""What a sentence may begin with and lose nothing without."""

QUESTION = re.compile(
    r"^(?:what|who|whom|whose|which|why|how|when|where|is|are|am|was|were|do|does|did|can|could|would|will|should|shall|may|might|have|has|had|any)\b.{0,400}\?\W{0,3}$"
    r"|\?\W{0,3}$",
    re.IGNORECASE | re.DOTALL,
)

REQUEST = re.compile(r"^(?:[\w ,]{0,20}\s)?(?:can|could|would|will) (?:you|i|we|u)\b", re.IGNORECASE)
"""A question that asks for something to be done: what is to be done is said in it."""

CHIT_CHAT = re.compile(
    r"\b(?:thank(?:s| you| u)|thx|appreciate|sorry (?:for|about|to|if)|apolog\w{2,6}|hope (?:you|your|this|that|it|we|all)|no (?:rush|worries|problem|need)|let me know|get back to (?:me|you)"
    r"|(?:makes?|made|making) (?:any |a lot of |perfect |more )?sense|rambl\w{1,4}|bear with me|good (?:morning|evening|night|luck|point|idea|question)|have a (?:good|great|nice|lovely)|take care|talk (?:to you )?(?:soon|later)|see you|nice to (?:hear|meet)|glad (?:to|you|that|i)|happy to (?:hear|help)"
    r"|(?:you|you've|you're|you are) (?:probably|been|so|really|very|right|welcome|amazing|great|the best)|sounds? (?:good|great|like|amazing|awesome|fun|cool|wonderful)|(?:that|this|it)(?:'s| is| was| sounds?) (?:really |so |such |very |pretty |quite |a |an ){0,3}(?:great|good|nice|cool|awesome|amazing|funny|interesting|wonderful|fantastic|lovely|helpful|awful|fine|true|right|fair)"
    r"|i (?:totally |completely |really |do |did )?(?:wonder|understand|agree|see what|know what|hear you|get it|can imagine|can't wait|keep telling|was wondering|was just|laughed)"
    r"|don't (?:know|worry|mind|get me)|not (?:sure|certain|an expert)|no idea|to be (?:perfectly |completely |totally )?honest|i (?:might|may|could|should|will|'ll) (?:well |probably |perhaps |just |also )?(?:think|come back|have another|check|look|try|give it|definitely|keep that)|i'll (?:definitely|try|check|look|think|keep|give|have|be sure|make sure)|in (?:your|my) (?:opinion|view)|what do you think"
    r"|(?:i'm|i am) (?:so |really |very |just )?(?:excited|happy|glad|thrilled|curious|interested|wondering|looking forward|thinking|grateful|proud|rambling|trying|hoping to (?:hear|learn|find))|looking forward|sleep on it|slipped my mind|out of curiosity|long (?:message|story))\b",
    re.IGNORECASE,
)
"""Courtesies, and comments on the conversation itself."""

PROPER_NAME = re.compile(
    r"(?<![.!?…] )(?<=[\w,;:'’\"“(-] )(?!I\b|I['’]|Ok\b|OK\b|English\b|Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)"
    r"(?:(?:Dr|Mr|Mrs|Ms|Prof|St)\.\s)?[A-ZÀ-ÖØ-ÞĀ-Ž][\w’'&-]{1,30}(?:\s(?:(?:of|de|la|van|von|der|the|and|&)\s)?[A-ZÀ-ÖØ-Þ0-9][\w’'&.-]{0,30}){0,4}"
)
"""Capitalised words that are not the first of their clause."""

SIGNALS = (
    _signal(
        "prohibition",
        FactCategory.CONDITION,
        0.7,
        r"\b(?:never|under no circumstances|on no account|by no means)\b"
        r"|(?:^|\b(?:please|just|so|and|but|kindly|whatever you do,?)\s|[,;:—]\s)(?:do not|don't|avoid|stop|no more)\s" + _NOT_PROHIBITED + r"\w"
        r"|\b(?:must not|mustn't|may not|shall not|(?:is|are|'s|'re) not (?:to|allowed|permitted)|not (?:allowed|permitted|supposed) to|(?:is|are) (?:forbidden|prohibited|banned|off[- ]limits|out of the question))\b"
        r"|^no (?!one\b|idea\b|problem|need\b|doubt\b|wonder\b|rush\b|way\b|matter\b|thanks\b|worries\b|clue\b)(?:\w+ ){1,3}(?:in|on|at|near|after|before|for|during|inside|around|until|with|from)\b|\b(?:out of the loop|off the table|out of bounds|keep (?:\w+ ){1,3}(?:away|out|off))\b"
        r"|\b(?:nobody|no one|nothing|none of \w{1,12}) (?:should|can|may|must|is|gets|goes|else)\b"
        r"|\b(?:should not|shouldn't|can't|cannot|can not|won't|will not|doesn't|does not|don't|do not) (?:be |ever |have |eat|drink|take |use|touch|share|tell|call|go |stand|tolerate|handle|work |fit|drive|fly|swim|climb|lift|park|accept|allow|do )",
    ),
    _signal(
        "exclusion",
        FactCategory.CONDITION,
        0.4,
        r"\b(?:without|except(?: for)?|other than|instead of|rather than|nothing but|no \w{3,15} (?:allowed|please|at all|either|whatsoever)|not (?:the|a|an|before|after|until|on|in|at|more than|less than|under|over)|neither)\b|^no (?!one|idea|problem|need|doubt|wonder|rush|way|matter|thanks|worries|clue)\w",
    ),
    _signal(
        "limit",
        FactCategory.CONDITION,
        0.5,
        r"\b(?:at (?:most|least)|no (?:more|less|later|earlier|longer|bigger|larger|fewer) than|(?:more|less|fewer|later|earlier) than|up to|maximum|minimum|max|min|tops|the most (?:i|we)|under (?:\w+ ){0,2}(?:minutes|hours|words|pages|days)|only|strictly|exclusively)\b",
    ),
    _signal(
        "requirement",
        FactCategory.CONDITION,
        0.45,
        r"\b(?:must|(?:has|have|had|needs?|ought) to be|(?:i|we|he|she|they) (?:really |absolutely )?(?:need|require|insist)s?|(?:has|have) to (?:be|have|go|get|stay|arrive|leave|finish|include|fit|take)|required|mandatory|essential|make sure|be sure to|ensure|always|insists?|wants? (?:it|the|them|everything|us|me)|(?:is|are) (?:supposed|meant|due) (?:to)?)\b",
    ),
    _signal(
        "instruction",
        FactCategory.CONDITION,
        0.4,
        r"^(?:please |always |kindly |just |only |then |fine, )?(?:use|send|ship|call|ring|text|email|write|reply|answer|keep|put|leave|book|cancel|order|add|remove|change|set|move|deliver|charge|bill|pay|transfer|include|skip|drop|replace|return|refund|ask|speak|address|contact|get me|give me|find me|look in|look for|reserve|schedule|remind|switch|pick|go with)\b",
    ),
    _signal(
        "allergy or diet",
        FactCategory.CONDITION,
        0.75,
        r"\b(?:allerg\w{1,6}|intoleran\w{1,3}|hives|anaphyla\w{1,6}|epipen|celiac|coeliac|vegans?|vegetarians?|pescatarian|halal|kosher|(?:gluten|lactose|dairy|nut|sugar|alcohol)[- ]free|diabet\w{1,3}|reacts? (?:badly )?to|breaks? out in|makes? (?:me|him|her|them|us) (?:sick|ill|sneeze|dizzy))\b",
    ),
    _signal(
        "health",
        FactCategory.STATE,
        0.6,
        r"\b(?:diagnosed|pregnan\w{1,3}|asthma|migraines?|epilep\w{2,4}|arthritis|blood pressure|prescri\w{2,7}|medication|dos(?:e|age)|surgery|operat(?:ed|ion)|hospital|injur\w{1,4}|chronic|disab\w{2,6}|wheelchair|insulin|pacemaker|(?:takes?|on) (?!the |a |an |it|that|this|my|your|out|up|off|time|care|place|part|some|turns|all|and)[a-z]{4,16}(?:in|ol|ine|ide|ate|il|am|one|um|xen|cin|lin|rin)\b)",
    ),
    _signal(
        "condition",
        FactCategory.CONDITION,
        0.5,
        r"\b(?:only (?:if|when|once|after|on|with|for)|unless|provided(?: that)?|providing|as long as|so long as|on condition|in (?:the )?case (?:of|it|the|he|she|they|we|i|anything|something)|once the|not (?:until|before|unless)|until)\b"
        r"|^(?:if|when|whenever|in case|should) (?!you (?:want|like|have|need|could|can|know|don't mind|were|ask|get a)|i (?:may|understand|remember|recall|were|knew)|possible|not\b|so\b|anything\b).{3,200}",
    ),
    _signal(
        "decision",
        FactCategory.DECISION,
        0.65,
        r"\b(?:(?:have |'ve |has |finally |just |all )?(?:decided|settled (?:on|for)|agreed (?:to|on|that)|opted (?:for|to)|chosen|chose|went (?:with|for)|going with|go (?:with|for(?! it\b)|ahead with)|stick(?:ing)? (?:with|to)|ended up \w+ing|made up (?:my|our) mind|signed up for|ruled out|pulled out|picked (?!up)|confirmed|committed to)"
        r"|in the end|(?:i'll|we'll|i will|we will|i'd like to|we'd like to) (?:take|have|go|book|order|buy|pay|cancel|keep|call (?:\w+ ){1,3}off|pick up|choose|switch|use|need|stay|meet|bring)"
        r"|(?:cancel|drop|postpone|reschedule)(?:led|ped|d)? (?:the|my|our|it|that))\b",
    ),
    _signal(
        "preference",
        FactCategory.GENERAL,
        0.5,
        r"\b(?:prefer(?:s|red)?|(?:i|we|he|she|they)(?:'d| would) (?:\w+ ){0,2}(?:rather|sooner)|favou?rites?|(?:can't|cannot) (?:stand|bear)|(?:i|we|he|she|they|\w+) (?:really |absolutely |also |both |all )?(?:hates|loathes?|dislikes?|adores?|loves|enjoys|prefers)|(?:i|we|they) (?:really |absolutely |also |both |all )?(?:hate|love|enjoy)|(?:give me|i'll take) (?:\w+ ){1,6}(?:over|any (?:time|day))|don't get (?:along|on)|not a fan of|big fan of|fond of|(?:isn't|not) keen on|(?:more|not) my thing|allergic to|more of an? |kind of person|\w+ person\b|works? (?:best|better) for (?:me|us)|(?:i|we) (?:really )?like (?!to know|the (?:idea|sound)|that|those|it|this|your|how))\b",
    ),
    _signal(
        "change",
        FactCategory.STATE,
        0.5,
        r"\b(?:no longer|not any ?more|anymore|used to|moved (?:to|in|out|from|house|back)|switched|changed (?:to|from|my|our|jobs?|the)|replaced|stopped \w+ing|quit|gave up|given up|retired|resigned|laid off|got (?:married|divorced|promoted|engaged|a new)|just (?:got|bought|started|moved|joined|adopted|finished|had)|has (?:left|moved|gone|closed|stopped|dropped|changed)|have (?:left|moved|stopped|changed)|was (?:moved|changed|cancelled|canceled|postponed|delayed|replaced|upgraded|promoted)|(?:were|been) (?:moved|changed|living|working)|took (?:it|them|\$?\d\S*) (?:back|off)|these days|as of|from now on|since the|so far|for now)\b",
    ),
    _signal(
        "state",
        FactCategory.STATE,
        0.5,
        r"\b(?:broken|broke|failing|fails|failed|stuck|out of order|on the blink|playing up|faulty|damaged|cracked|torn|leak(?:s|ing|ed)?|crash(?:es|ed|ing)?|missing|stolen|expired|overdue|pending|won't (?:start|turn|open|close|charge|load|work|boot)|(?:doesn't|isn't|not|stopped) (?:working|draining|charging|heating|work|responding)|currently|still (?:\w+ing|not|on|in|at|up|open|has|have|waiting|broken)|is (?:down|full|empty|closed|open|late|sold out|back|gone|ready|off|out)|are (?:out|off|closed|gone|down)|stuck on|(?:runs?|running) (?:on|low|out)|lost (?:my|our|the|his|her))\b",
    ),
    _signal(
        "identity",
        FactCategory.ENTITY,
        0.55,
        r"\b(?:my name(?:'s| is)|(?:is|are|was|'s|named|called|him|her|it) (?:called|named)|(?:we|i|they|he|she) (?:call|named|call(?:ed)?) (?:him|her|it|them)|goes by|i(?:'m| am) (?:an? |the )(?!bit|little|lot|mess|huge|big|newbie|total|complete|fan)[a-z]|i work (?:as|for|at|in|with|on)|working (?:as|for) |(?:i|we|he|she|they) (?:head up|run|manage|own|teach|study|studies|runs|owns|manages|teaches)\b|i do the|by (?:day|trade|profession)|(?:i|we|he|she|they)(?:'ve| have|'m|'re)? (?:live|lives|lived|living|been living|grew up|born|based|from|staying|stay) ?(?:in|at|near|on|with|from)?\b|belongs? to|speaks? (?:nothing|only|no|fluent|[A-Z])|(?:is|was|'s) the (?:one|person|guy|woman|man) who|(?:i'm|i am|we're|we are) (?:in|at|from) [A-Z]|married to|engaged to|in charge of|responsible for|majoring|degree in)",
    ),
    _signal(
        "proposal",
        FactCategory.DECISION,
        0.45,
        r"^let's (?!see|say|hope|talk|start|face|be honest|get back|continue|move on|go on|not forget|hear|think|look)\w+",
    ),
    _signal(
        "event",
        FactCategory.STATE,
        0.3,
        r"\b(?:i|we|he|she|they)(?:'ve| have|'d| had)? (?:\w{2,10}ly |just |also |even )?(?:went|took|got|bought|made|met|saw|found|gave|sent|left|lost|won|came|ate|began|built|chose|drove|flew|grew|hid|paid|ran|sold|sang|spent|taught|wrote|wore|broke|been to|driven|known|worn|written|seen|done|lived|worked"
        r"|(?!want|need|like|love|mention|talk|remember|wonder|notice|expect|ask|tri|us|laugh|appreciat|enjoy|learn|explain|seem|hop|figur|realiz|realis|look|decid|happen)[a-z]{2,12}ed)\b",
    ),
    _signal(
        "activity",
        FactCategory.GENERAL,
        0.3,
        r"\b(?:i|we)(?:'m|'re| am| are|'ve been| have been) (?:\w{2,10}ly |also |still )?(?!think|wonder|hop|try|feel|writ|ask|say|tell|go|be\b|do|rambl|look(?!ing (?:for|to)))[a-z]{2,12}ing\b|\bin the mood for\b",
    ),
    _signal("relation", FactCategory.ENTITY, 0.35, rf"\b(?:my|our|his|her|their)\s(?:\w+['’]?s?\s){{0,2}}(?:{_KIN})\b|^(?:dad|mum|mom|grandpa|grandad|grandma|granny)\b|,\s(?:my|our|his|her|their)\s(?:[\w'-]+\s){{0,2}}[\w'-]+,|\bit was [A-Z]\w+"),
    _signal(
        "habit",
        FactCategory.GENERAL,
        0.3,
        r"\b(?:i|we) (?:always |usually |mostly |often |normally )?(?!know|think|guess|have|had|hope|mean|see|get|feel|need|want|just|could|would|should|can|will|was|were|might|may|must|did|and|read|had|saw|find|understand|appreciate|wonder|remember|forgot|write|said|like|love|left|took|made|went)[a-z]{3,10} (?:the|my|our|a|an|it|them|him|her|with|for|at|on|in)\b",
    ),
    _signal(
        "possession",
        FactCategory.GENERAL,
        0.38,
        rf"\b(?:my|our|his|her|their)\s(?:[\w'’-]+\s){{1,4}}?(?:{_BE}|has|have|had|runs?|takes?|gets?|starts?|moved|measures?|costs?|comes?|needs?|wants?|lives?|works?|ended|broke|keeps?|can't|can|won't|will|speaks?|only)\b",
    ),
    _signal(
        "holding",
        FactCategory.GENERAL,
        0.28,
        r"\b(?:i|we|he|she|they)(?:'ve| have|'s| has)? (?:got|have|has|own|owns|bought|ordered|booked|paid|pay|drive|drives|wear|wears|take|takes|use|uses|shoot|play|plays|keep|keeps|need|needs|adopted|picked|received|sold|sent|returned|signed|rented|rent|spend|spent|speak|speaks|grow|eat|drink|read|graduated|visited|attended|fly|leave|arrive|land|dropped|fed|come|came|go|get|make|makes|pulled|do) (?!a (?:question|look|lot|point|feeling|problem|chance|bit|good|great)|an idea|no idea|to\b|been|the feeling|some (?:questions|ideas)|any|it\b|that\b|you\b|your\b)\w",
    ),
    _signal(
        "plan",
        FactCategory.GENERAL,
        0.35,
        r"\b(?:(?:i|we|he|she|they)(?:'m|'re|'s| am| are| is| was| were)? (?:planning|hoping|going|aiming|intend(?:ing|s)?|about|plan|hope|want|wants|flying|leaving|travel(?:l)?ing|moving|visiting|starting|getting) (?:on|for|to|out|in|from|off|married|back|through)\b|(?:is|are|it's|'re) going to (?:be|have|get|need|cost|take)|the (?:idea|plan|goal|aim) is|(?:i|we)(?:'d| would) (?:also )?(?:like|love) (?:to|a|an|the|it)|i want (?:a|an|the|it)|want to try|looking (?:for|at) (?:a|an|the|something)|need(?:s)? (?:a|an|the|to) )",
    ),
    _signal("deadline", FactCategory.NUMERIC, 0.5, rf"\b(?:due|deadline|by (?:the end|noon|midnight|tomorrow|tonight|then|next|{_DAY}|{_MONTH}|close)|before (?:the|noon|midnight|close|next|{_DAY}|{_MONTH}|christmas|easter)|no later than|expires?|at the latest|end of (?:the )?(?:day|week|month|year|business|{_MONTH}))\b"),
    _signal("time", FactCategory.NUMERIC, 0.42, rf"\b(?:{_DAY}|(?:half|quarter) (?:past|to) \w+|noon|midnight|every (?:\w+ )?(?:day|morning|evening|week|month|night|{_DAY})|(?:next|last|this) (?:week|weekend|month|year|spring|summer|autumn|fall|winter|{_DAY}|{_MONTH})|(?:in|since|until|from|of|during|next|last) (?:{_MONTH}|spring|summer|autumn|winter)|weekdays|weekends|(?:a|per|each|every) (?:day|week|month|year)|tomorrow|yesterday|alternate)\b"),
    _signal("quantity", FactCategory.NUMERIC, 0.4, rf"\b(?:{_NUMBER_WORD})\s(?!of us\b|or three|weeks? ago|times?\b|more\b|things?\b|ways?\b|different\b|people i\b|sides?\b)\w|\b(?:{_NUMBER_WORD}) of (?:us|them|you)\b|\b(?:strict|exactly|roughly|about|around) (?:{_NUMBER_WORD})\b"),
    _signal("reason", FactCategory.GENERAL, 0.25, r"\b(?:because|due to|on account of|that's why|so that|the reason|owing to|thanks to|since (?:the|my|our|it|he|she|they|i|we))\b"),
    _signal("appearance", FactCategory.GENERAL, 0.3, r"\b(?:red|blue|green|yellow|orange|purple|violet|lilac|pink|black|white|grey|gray|brown|beige|navy|teal|turquoise|maroon|ivory|cream|gold|silver|oak|walnut|pine|leather|cotton|wool|size|small|medium|large|xl|wide|narrow|tall|diameter|height|width)\b"),
    _signal("contact", FactCategory.ENTITY, 0.3, r"\b(?:e-?mail|phone|mobile|landline|cell|address|reach (?:me|him|her|us|them)|write (?:back )?to|number is|text (?:me|him|her)|whatsapp|postcode|zip code)\b"),
    _signal("label", FactCategory.NUMERIC, 0.3, r"\b(?:order|booking|reservation|confirmation|reference|ref|ticket|case|invoice|account|policy|tracking|serial|membership|student|employee|customer|licen[cs]e|passport|flight|model|version|pin|code|budget|deposit|price|cost|fee|rent|salary|mortgage|balance|rate)\b"),
    _signal(
        "subject",
        FactCategory.GENERAL,
        0.3,
        r"^(?:the|my|our|his|her|their|[A-Z][\w'-]{1,20}) (?:[\w'’-]+\s){0,4}?(?!this|always|as\b|is\b|was\b|has\b|us\b)\w{2,12}(?:s|ed|make|put|cause)\s(?:\w+\s?){1,3}",
    ),
    _signal("statement", FactCategory.GENERAL, 0.25, rf"^(?:the|this|these|those|all|everything|every|each|both|most|half)\s(?:[\w'’-]+\s){{0,6}}?(?:{_BE}|has|have|runs?|live[s]?|takes?|measures?|costs?|came|comes|goes|moved|belongs|wants?|needs?|starts?|ends?|kicks|works)\b"),
    _signal("address", FactCategory.ENTITY, 0.75, r"\b\d{1,5}[a-z]?,?\s(?:[A-Z][\w'’.-]{1,20}\s){1,3}(?:Street|St|Avenue|Ave|Road|Rd|Lane|Ln|Drive|Dr|Crescent|Court|Ct|Place|Pl|Square|Sq|Way|Boulevard|Blvd|Terrace|Close|Row|Hill|Park)\b", cased=True),
)
"""What a user's clause may state. Weights below 0.33 need another signal, or words that are specific."""

ASSISTANT = (
    _signal("commitment", FactCategory.DECISION, 0.6, r"\b(?:i've|i have|i|we've|we have) (?:just |now |already |also )?(?:booked|reserved|scheduled|cancelled|canceled|ordered|registered|opened|issued|refunded|sent|shipped|updated|arranged|set up|changed|moved|extended|applied|waived|confirmed|noted)\b|\b(?:i'll|i will|we'll|we will) (?:send|call|ship|refund|deliver|remind|email|book|arrange|replace|credit|return|contact|ring|escalate|waive|collect|deduct|pick (?:it|them) up)\b|\byour (?:\w+ ){1,5}(?:is|are|has been|have been) (?:now )?(?:booked|confirmed|reserved|scheduled|cancelled|canceled|refunded|registered|shipped|set)\b|\b(?:we agreed|as agreed|you(?:'re| are) (?:booked|confirmed|all set for)|appointment is)\b"),
    _signal("reference", FactCategory.NUMERIC, 0.7, r"\b(?:confirmation|reference|ticket|case|order|booking|reservation|tracking|receipt|invoice|claim|transaction|request|registration|ref|appointment|policy|account|pnr|rma)\b[\s\w#'’.-]{0,30}(?:is|:|#|no\.?|number|code)"),
)
"""What an assistant's clause may state: commitments, and the labels of ids."""

LISTENER = re.compile(r"\b(?:you|your|yours|yourself|you're|you've|you'll|you'd)\b", re.IGNORECASE)
"""What is said of the listener, mostly encouragement."""

JOINER = re.compile(r"\s(?=(?:and|but|so|because|since|although|though|while|which|who|where|until|unless|if|when|or)\s)")
"""Where a long clause may be divided."""
