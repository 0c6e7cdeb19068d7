"""English: how people state facts, whatever the facts are about.

The patterns look for grammar (negated modals, imperatives, possessives, copulas, conditions, changes of state) and
for a few closed classes of words (kinship, units, number words); what the clause is about is left to the clause.
"""

import re

from arc_common.facts import FactCategory
from arc_common.text.languages.signal import Signal

__all__ = ["ASSISTANT", "SIGNALS"]


def _signal(name: str, category: FactCategory, weight: float, pattern: str, *, cased: bool = False) -> Signal:
    return Signal(name, category, weight, re.compile(pattern), cased=cased)


_KIN = (
    r"mum|mom|mother|dad|father|parents?|sister|brother|son|daughter|kids?|child|children|baby|toddler"
    r"|little one|eldest|youngest|twins?|wife|husband|spouse|partner"
    r"|fiancée?|boyfriend|girlfriend|grandma|grandpa|grandmother|grandfather|granny|aunt|uncle|cousin"
    r"|niece|nephew|in-laws?"
    r"|(?:mother|father|brother|sister)-in-law|step\w{3,8}|boss|manager|supervisor|colleague|coworker"
    r"|co-worker|teammate|assistant|landlord|landlady|tenant|roommate|flatmate|housemate"
    r"|neighbou?rs?|doctor|gp|dentist|vet|lawyer|accountant|teacher|tutor|coach|professor|therapist"
    r"|client|customer|dog|cat|puppy|kitten|horse|rabbit|parrot|hamster"
)
_BE = r"(?:is|are|was|were|am|isn't|aren't|wasn't|weren't|'s|'re|'m)"
_NUMBER_WORD = (
    r"two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen"
    r"|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand|a dozen"
    r"|half a dozen|dozens|a couple of|a pair of|half a|twice|double|triple"
)
_DAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?"
_MONTH = r"january|february|march|april|june|july|august|september|october|november|december"
_NOT_PROHIBITED = (
    r"(?!worry|know|mind|think|care|get me wrong|understand|hesitate|remember|believe|see why|be sorry"
    r"|have to|need to|want to|really|feel|even|quite)"
)

SIGNALS = (
    _signal(
        "prohibition",
        FactCategory.CONDITION,
        0.7,
        r"\b(?:never|under no circumstances|on no account|by no means)\b"
        r"|(?:^|\b(?:please|just|so|and|but|kindly|whatever you do,?)\s|[,;:—]\s)(?:do not|don't|avoid"
        r"|stop|no more)\s" + _NOT_PROHIBITED + r"\w"
        r"|\b(?:must not|mustn't|may not|shall not|(?:is|are|'s|'re) not (?:to|allowed|permitted)"
        r"|not (?:allowed|permitted|supposed) to|no-go|taboo|(?:is|are) (?:forbidden|prohibited|banned|off[- ]limits"
        r"|out of the question))\b"
        r"|^no (?!one\b|idea\b|problem|need\b|doubt\b|wonder\b|rush\b|way\b|matter\b|thanks\b|worries\b"
        r"|clue\b)(?:\w+ ){1,3}(?:in|on|at|near|after|before|for|during|inside|around|until|with|from)\b"
        r"|\b(?:out of the loop|off the table|out of bounds|keep (?:\w+ ){1,3}(?:away|out|off))\b"
        r"|\b(?:nobody|no one|nothing|none of \w{1,12}) (?:should|can|may|must|is|gets|goes|else)\b"
        r"|\b(?:should not|shouldn't|can't|cannot|can not|won't|will not|doesn't|does not|don't"
        r"|do not) (?:be |ever |have |eat|drink|take |use|touch|share|tell|call|go |stand|tolerate|handle"
        r"|work |fit|drive|fly|swim|climb|lift|park|accept|allow|do )",
    ),
    _signal(
        "exclusion",
        FactCategory.CONDITION,
        0.4,
        r"\b(?:without|except(?: for)?|other than|instead of|rather than|nothing but"
        r"|no \w{3,15} (?:allowed|please|at all|either|whatsoever)|not (?:the|a|an|before|after|until|on"
        r"|in|at|more than|less than|under|over)|neither)\b|^no (?!one|idea|problem|need|doubt|wonder|rush"
        r"|way|matter|thanks|worries|clue)\w",
    ),
    _signal(
        "limit",
        FactCategory.CONDITION,
        0.5,
        r"\b(?:at (?:most|least)|no (?:more|less|later|earlier|longer|bigger|larger|fewer) than|(?:more"
        r"|less|fewer|later|earlier) than|up to|maximum|minimum|max|min|tops|the most (?:i|we)"
        r"|under (?:\w+ ){0,2}(?:minutes|hours|words|pages|days)|only|strictly|exclusively)\b",
    ),
    _signal(
        "requirement",
        FactCategory.CONDITION,
        0.45,
        r"\b(?:must|(?:has|have|had|needs?|ought) to be|(?:i|we|he|she|they) (?:really "
        r"|absolutely )?(?:need|require|insist)s?|(?:has|have) to (?:be|have|go|get|stay|arrive|leave"
        r"|finish|include|fit|take)|required|mandatory|essential|make sure|be sure to|ensure|always"
        r"|insists?|wants? (?:it|the|them|everything|us|me)|(?:is|are) (?:supposed|meant|due) (?:to)?)\b",
    ),
    _signal(
        "instruction",
        FactCategory.CONDITION,
        0.4,
        r"^(?:please |always |kindly |just |only |then |fine, )?(?:use|send|ship|call|ring|text|email"
        r"|write|reply|answer|keep|put|leave|book|cancel|order|add|remove|change|set|move|deliver|charge"
        r"|bill|pay|transfer|include|skip|drop|replace|return|refund|ask|speak|address|contact|get me"
        r"|give me|find me|look in|look for|reserve|schedule|remind|switch|pick|go with)\b",
    ),
    _signal(
        "allergy or diet",
        FactCategory.CONDITION,
        0.75,
        r"\b(?:allerg\w{1,6}|rash|itch\w{1,3}|swell\w{0,3}|swollen|nausea\w{0,2}|intoleran\w{1,3}|hives"
        r"|anaphyla\w{1,6}|epipen|celiac|coeliac|vegans?"
        r"|vegetarians?|pescatarian|halal|kosher|(?:gluten|lactose|dairy|nut|sugar|alcohol)[- ]free"
        r"|diabet\w{1,3}|reacts? (?:badly )?to|breaks? out in|makes? (?:me|him|her|them|us) (?:sick|ill"
        r"|sneeze|dizzy))\b",
    ),
    _signal(
        "health",
        FactCategory.STATE,
        0.6,
        r"\b(?:diagnosed|pregnan\w{1,3}|asthma|migraines?|epilep\w{2,4}|arthritis|blood pressure"
        r"|prescri\w{2,7}|medication|dos(?:e|age)|surgery|operat(?:ed|ion)|hospital|injur\w{1,4}|chronic"
        r"|disab\w{2,6}|wheelchair|insulin|pacemaker|(?:takes?|on) (?!the |a |an |it|that|this|my|your|out"
        r"|up|off|time|care|place|part|some|turns|all|and)[a-z]{4,16}(?:in|ol|ine|ide|ate|il|am|one|um|xen"
        r"|cin|lin|rin)\b)",
    ),
    _signal(
        "condition",
        FactCategory.CONDITION,
        0.5,
        r"\b(?:only (?:if|when|once|after|on|with|for)|unless|provided(?: that)?|providing|as long as"
        r"|so long as|as soon as (?!possible|you)|on condition|in (?:the )?case (?:of|it|the|he|she|they"
        r"|we|i|anything|something)"
        r"|once the|not (?:until|before|unless)|until)\b"
        r"|^(?:if|when|whenever|in case|should) (?!you (?:want|like|have|need|could|can|know|don't mind"
        r"|were|ask|get a)|i (?:may|understand|remember|recall|were|knew)|possible|not\b|so\b"
        r"|anything\b).{3,200}",
    ),
    _signal(
        "decision",
        FactCategory.DECISION,
        0.65,
        r"\b(?:(?:have |'ve |has |finally |just |all )?(?:decided|settled (?:on|for)|agreed (?:to|on|that)"
        r"|opted (?:for|to)|chosen|chose|went (?:with|for)|going with|go (?:with|for(?! it\b)|ahead with)"
        r"|stick(?:ing)? (?:with|to)|ended up \w+ing|made up (?:my|our) mind|signed up for|ruled out"
        r"|pulled out|picked (?!up)|confirmed|committed to)"
        r"|in the end|(?:i'll|we'll|i will|we will|i'd like to|we'd like to) (?:take|have|go|book|order"
        r"|buy|pay|cancel|keep|call (?:\w+ ){1,3}off|pick up|choose|switch|use|need|stay|meet|bring)"
        r"|(?:cancel|drop|postpone|reschedule)(?:led|ped|d)? (?:the|my|our|it|that))\b",
    ),
    _signal(
        "preference",
        FactCategory.GENERAL,
        0.5,
        r"\b(?:prefer(?:s|red)?|(?:i|we|he|she|they)(?:'d| would) (?:\w+ ){0,2}(?:rather|sooner)"
        r"|favou?rites?|(?:can't|cannot) (?:stand|bear)|(?:i|we|he|she|they|\w+) (?:really |absolutely "
        r"|also |both |all )?(?:hates|loathes?|dislikes?|adores?|loves|enjoys|prefers)|(?:i|we"
        r"|they) (?:really |absolutely |also |both |all )?(?:hate|love|enjoy)|(?:give me"
        r"|i'll take) (?:\w+ ){1,6}(?:over|any (?:time|day))|don't get (?:along|on)|not a fan of"
        r"|big fan of|fond of|(?:isn't|not) keen on|(?:more|not) my thing|allergic to|more of an? "
        r"|kind of person|\w+ person\b|works? (?:best|better) for (?:me|us)|(?:i"
        r"|we) (?:really )?like (?!to know|the (?:idea|sound)|that|those|it|this|your|how))\b",
    ),
    _signal(
        "change",
        FactCategory.STATE,
        0.5,
        r"\b(?:no longer|not any ?more|anymore|used to|moved (?:to|in|out|from|house|back)|switched"
        r"|changed (?:to|from|my|our|jobs?|the)|replaced|stopped \w+ing|quit|gave up|given up|retired"
        r"|resigned|laid off|got (?:married|divorced|promoted|engaged|a new)|just (?:got|bought|started"
        r"|moved|joined|adopted|finished|had)|has (?:left|moved|gone|closed|stopped|dropped|changed)"
        r"|have (?:left|moved|stopped|changed)|was (?:moved|changed|cancelled|canceled|postponed|delayed"
        r"|replaced|upgraded|promoted)|(?:were|been) (?:moved|changed|living|working)|took (?:it|them"
        r"|\$?\d\S*) (?:back|off)|these days|as of|from now on|since the|so far|for now)\b",
    ),
    _signal(
        "state",
        FactCategory.STATE,
        0.5,
        r"\b(?:broken|broke|failing|fails|failed|stuck|out of order|on the blink|playing up|faulty|damaged"
        r"|cracked|torn|leak(?:s|ing|ed)?|crash(?:es|ed|ing)?|missing|stolen|expired|overdue|pending"
        r"|won't (?:start|turn|open|close|charge|load|work|boot)|(?:doesn't|isn't|not|stopped) (?:working"
        r"|draining|charging|heating|work|responding)|currently|still (?:\w+ing|not|on|in|at|up|open|has"
        r"|have|waiting|broken)|is (?:down|full|empty|closed|open|late|sold out|back|gone|ready|off|out)"
        r"|are (?:out|off|closed|gone|down)|stuck on|(?:runs?|running) (?:on|low|out)|lost (?:my|our|the"
        r"|his|her))\b",
    ),
    _signal(
        "identity",
        FactCategory.ENTITY,
        0.55,
        r"\b(?:my name(?:'s| is)|(?:lives?|based|born|works) (?:in|at|near|for|as|with) |to (?:be"
        r"|become) an? (?!bit|lot|little|good|great)|(?:is|are|was|'s|named"
        r"|called|him|her|it) (?:called|named)|(?:we|i|they"
        r"|he|she) (?:call|named|call(?:ed)?) (?:him|her|it|them)|goes by|i(?:'m| am) (?:an? |the )(?!bit"
        r"|little|lot|mess|huge|big|newbie|total|complete|fan)[a-z]|i work (?:as|for|at|in|with|on)"
        r"|working (?:as|for) |(?:i|we|he|she|they) (?:head up|run|manage|own|teach|study|studies|runs"
        r"|owns|manages|teaches)\b|i do the|by (?:day|trade|profession)|(?:i|we|he|she|they)(?:'ve| have"
        r"|'m|'re)? (?:live|lives|lived|living|been living|grew up|born|based|from|staying|stay) ?(?:in|at"
        r"|near|on|with|from)?\b|belongs? to|speaks? (?:nothing|only|no|fluent)|(?:is|was|'s) the (?:one"
        r"|person|guy|woman|man) who|married to|engaged to|in charge of|responsible for|majoring"
        r"|degree in)",
    ),
    _signal(
        "proposal",
        FactCategory.DECISION,
        0.45,
        r"^let's (?!see|say|hope|talk|start|face|be honest|get back|continue|move on|go on|not forget|hear"
        r"|think|look)\w+",
    ),
    _signal(
        "copula",
        FactCategory.GENERAL,
        0.3,
        r"^(?!(?:i|you|it|that|this|there|these|those|he|she|they|we|what|who|how|when|why|where|which|if"
        r"|so|let|some|everyone"
        r"|everything|people|nothing|none|one|all|here)\b)(?:[\w'-]+ ){1,5}(?:is|are|was|were) (?!what|why"
        r"|how|that)\w"
        r"|\bit(?:'s| is| was) (?:the|my|our|his|her) (?!first|only|best|same"
        r"|thought)\w+ (?:\w+ ){0,3}(?:that|who)\b",
    ),
    _signal(
        "necessity",
        FactCategory.GENERAL,
        0.3,
        r"\b(?:i|we|he|she|they) (?:had|have|has) to (?!say|admit|think|wait|ask|laugh|be honest|agree"
        r"|explain|find|figure)\w"
        r"|\b(?:i|we|he|she|they)(?:'ll| will) (?!be (?:happy|glad|fine|ok)|see|find|think|let|try"
        r"|come back|have|look|ask|keep|do|get|tell|know)\w",
    ),
    _signal(
        "event",
        FactCategory.STATE,
        0.3,
        r"\b(?:i|we|he|she|they)(?:'ve| have|'d| had)? (?:\w{2,10}ly |just |also |even )?(?:went|took|got"
        r"|bought|made|met|saw|found|gave|sent|left|lost|won|came|ate|began|built|chose|drove|flew|grew"
        r"|hid|paid|ran|sold|sang|spent|taught|wrote|wore|broke|been to|driven|known|worn|written|seen"
        r"|done|lived|worked"
        r"|(?!want|need|like|love|mention|talk|remember|wonder|notice|expect|ask|tri|us|laugh|appreciat"
        r"|enjoy|learn|explain|seem|hop|figur|realiz|realis|look|decid|happen)[a-z]{2,12}ed)\b",
    ),
    _signal(
        "activity",
        FactCategory.GENERAL,
        0.3,
        r"\b(?:i|we)(?:'m|'re| am| are|'ve been| have been) (?:\w{2,10}ly |also |still )?(?!think|wonder"
        r"|hop|try|feel|writ|ask|say|tell|go|be\b|do|rambl|look(?!ing (?:for|to)))[a-z]{2,12}ing\b"
        r"|\bin the mood for\b",
    ),
    _signal(
        "relation",
        FactCategory.ENTITY,
        0.4,
        rf"\b(?:my|our|his|her|their)\s(?:\w+['’]?s?\s){{0,2}}(?:{_KIN})\b|^(?:dad|mum|mom|grandpa|grandad"
        rf"|grandma|granny)\b|,\s(?:my|our|his|her|their)\s(?:[\w'-]+\s){{0,2}}[\w'-]+,",
    ),
    _signal(
        "habit",
        FactCategory.GENERAL,
        0.3,
        r"\b(?:i|we) (?:always |usually |mostly |often |normally )?(?!know|think|guess|have|had|hope|mean"
        r"|see|get|feel|need|want|just|could|would|should|can|will|was|were|might|may|must|did|and|read"
        r"|had|saw|find|understand|appreciate|wonder|remember|forgot|write|said|like|love|left|took|made"
        r"|went)[a-z]{3,10} (?:the|my|our|a|an|it|them|him|her|with|for|at|on|in)\b",
    ),
    _signal(
        "possession",
        FactCategory.GENERAL,
        0.38,
        rf"\b(?:my|our|his|her|their)\s(?:[\w'’-]+\s){{1,4}}?(?:{_BE}|has|have|had|runs?|takes?|gets?"
        rf"|starts?|moved|measures?|costs?|comes?|needs?|wants?|lives?|works?|ended|broke|keeps?|can't|can"
        rf"|won't|will|speaks?|only)\b",
    ),
    _signal(
        "holding",
        FactCategory.GENERAL,
        0.28,
        r"\b(?:i|we|he|she|they)(?:'ve| have|'s| has)? (?:got|have|has|own|owns|bought|ordered|booked|paid"
        r"|pay|drive|drives|wear|wears|take|takes|use|uses|shoot|play|plays|keep|keeps|need|needs|adopted"
        r"|picked|received|sold|sent|returned|signed|rented|rent|spend|spent|speak|speaks|grow|eat|drink"
        r"|read|graduated|visited|attended|fly|leave|arrive|land|dropped|fed|come|came|go|get|make|makes"
        r"|pulled|do) (?!a (?:question|look|lot|point|feeling|problem|chance|bit|good|great)|an idea"
        r"|no idea|to\b|been|the feeling|some (?:questions|ideas)|any|it\b|that\b|you\b|your\b)\w",
    ),
    _signal(
        "plan",
        FactCategory.GENERAL,
        0.38,
        r"\b(?:(?:i|we|he|she|they)(?:'m|'re|'s| am| are| is| was| were)? (?:planning|hoping|going|aiming"
        r"|intend(?:ing|s)?|about|plan|hope|want|wants|flying|leaving|travel(?:l)?ing|moving|visiting"
        r"|starting|getting) (?:on|for|to|out|in|from|off|married|back|through)\b|(?:is|are|it's"
        r"|'re) going to (?:be|have|get|need|cost|take)|the (?:idea|plan|goal|aim) is|(?:i|we)(?:'d"
        r"| would) (?:also )?(?:like|love) (?:to|a|an|the|it)|i want (?:a|an|the|it)|want to try"
        r"|(?:he|she|they)(?:'d| would) (?:like|love)"
        r"|looking (?:for|at) (?:a|an|the|something)|need(?:s)? (?:a|an|the|to) )",
    ),
    _signal(
        "deadline",
        FactCategory.NUMERIC,
        0.5,
        rf"\b(?:due|deadline|by (?:the end|noon|midnight|tomorrow|tonight|then|next|{_DAY}|{_MONTH}|close)"
        rf"|before (?:the|noon|midnight|close|next|{_DAY}|{_MONTH}|christmas|easter)|no later than|expires?"
        rf"|at the latest|end of (?:the )?(?:day|week|month|year|business|{_MONTH}))\b",
    ),
    _signal(
        "time",
        FactCategory.NUMERIC,
        0.42,
        rf"\b(?:{_DAY}|(?:half|quarter) (?:past|to) \w+|noon|midnight|every (?:\w+ )?(?:day|morning|evening"
        rf"|week|month|night|{_DAY})|(?:next|last|this) (?:week|weekend|month|year|spring|summer|autumn"
        rf"|fall|winter|{_DAY}|{_MONTH})|(?:in|since|until|from|of|during|next|last) (?:{_MONTH}|spring"
        rf"|summer|autumn|winter)|weekdays|weekends|(?:a|per|each|every) (?:day|week|month|year)|tomorrow"
        rf"|yesterday|alternate)\b",
    ),
    _signal(
        "quantity",
        FactCategory.NUMERIC,
        0.4,
        rf"\b(?:{_NUMBER_WORD})\s(?!of us\b|or three|weeks? ago|times?\b|more\b|things?\b|ways?\b"
        rf"|different\b|people i\b|sides?\b)\w|\b(?:{_NUMBER_WORD}) of (?:us|them|you)\b|\b(?:strict"
        rf"|exactly|roughly|about|around) (?:{_NUMBER_WORD})\b",
    ),
    _signal(
        "reason",
        FactCategory.GENERAL,
        0.25,
        r"\b(?:because|due to|on account of|that's why|so that|the reason|owing to|thanks to|since (?:the"
        r"|my|our|it|he|she|they|i|we))\b",
    ),
    _signal(
        "appearance",
        FactCategory.GENERAL,
        0.3,
        r"\b(?:red|blue|green|yellow|orange|purple|violet|lilac|pink|black|white|grey|gray|brown|beige"
        r"|navy|teal|turquoise|maroon|ivory|cream|gold|silver|oak|walnut|pine|leather|cotton|wool|size"
        r"|small|medium|large|xl|wide|narrow|tall|diameter|height|width)\b",
    ),
    _signal(
        "place",
        FactCategory.ENTITY,
        0.5,
        r"\b(?:I'm|I am|[Ww]e're|[Ww]e are|[Ii]t was|[Ss]peaks?) (?:in |at |from )?[A-Z](?!')\w",
        cased=True,
    ),
    _signal(
        "contact",
        FactCategory.ENTITY,
        0.3,
        r"\b(?:e-?mail|phone|mobile|landline|cell|address|reach (?:me|him|her|us|them)|write (?:back )?to"
        r"|number is|text (?:me|him|her)|whatsapp|postcode|zip code)\b",
    ),
    _signal(
        "label",
        FactCategory.NUMERIC,
        0.3,
        r"\b(?:order|booking|reservation|confirmation|reference|ref|ticket|case|invoice|account|policy"
        r"|tracking|serial|membership|student|employee|customer|licen[cs]e|passport|flight|model|version"
        r"|pin|code|budget|deposit|price|cost|fee|rent|salary|mortgage|balance|rate)\b",
    ),
    _signal(
        "subject",
        FactCategory.GENERAL,
        0.3,
        r"^(?:the|my|our|his|her|their|(?!i|you|it|that|this|there|these|those|he|she|they|we|what|who|how"
        r"|when|if|so|let|some|people|every|any|no|and|but)[a-z][\w'-]{2,20}) (?:[\w'’-]+\s){0,4}?(?!this"
        r"|always|as\b|is\b|was\b|has\b|us\b)\w{2,12}(?:s|ed|make|put|cause)\s(?:\w+\s?){1,3}",
    ),
    _signal(
        "statement",
        FactCategory.GENERAL,
        0.25,
        rf"^(?:the|this|these|those|all|everything|every|each|both|most"
        rf"|half)\s(?:[\w'’-]+\s){{0,6}}?(?:{_BE}|has|have|runs?|live[s]?|takes?|measures?|costs?|came"
        rf"|comes|goes|moved|belongs|wants?|needs?|starts?|ends?|kicks|works)\b",
    ),
    _signal(
        "address",
        FactCategory.ENTITY,
        0.75,
        r"\b\d{1,5}[a-z]?,?\s(?:[A-Z][\w'’.-]{1,20}\s){1,3}(?:Street|St|Avenue|Ave|Road|Rd|Lane|Ln|Drive"
        r"|Dr|Crescent|Court|Ct|Place|Pl|Square|Sq|Way|Boulevard|Blvd|Terrace|Close|Row|Hill|Park)\b",
        cased=True,
    ),
)
"""What a user's clause may state. Weights below 0.33 need another signal, or words that are specific."""

_DONE = r"(?:\w{2,}ed|put|set|made|sent|left|kept|held|paid|bought|drawn|chosen|written|taken|given|found|got|lost|cut)"
"""A participle: of any regular verb, or of one of the commonest others."""

ASSISTANT = (
    _signal(
        "commitment",
        FactCategory.DECISION,
        0.6,
        r"\b(?:i've|i have|i|we've|we have) (?:just |now |already |also )?(?:booked|reserved|scheduled"
        r"|cancelled|canceled|ordered|registered|opened|issued|refunded|sent|shipped|updated|arranged"
        r"|set up|changed|moved|extended|applied|waived|confirmed|noted)\b|\b(?:i'll|i will|we'll"
        r"|we will) (?:send|call|ship|refund|deliver|remind|email|book|arrange|replace|credit|return"
        r"|contact|ring|escalate|waive|collect|deduct|pick (?:it|them) up)\b"
        rf"|\byour (?:[\w'-]+ ){{0,5}}?[\w-]+(?: (?:is|are|was|were|has been|have been)|'s been)"
        rf" (?:now |already |still |just )?{_DONE}\b"
        r"|\b(?:we agreed|as agreed|you(?:'re| are) (?:booked|confirmed|all set for)|appointment is)\b",
    ),
    _signal(
        "reference",
        FactCategory.NUMERIC,
        0.7,
        r"\b(?:confirmation|reference|ticket|case|order|booking|reservation|tracking|receipt|invoice|claim"
        r"|transaction|request|registration|ref|appointment|policy|account|pnr"
        r"|rma)\b[\s\w#'’.-]{0,30}(?:is|:|#|no\.?|number|code)",
    ),
    _signal(
        "told",
        FactCategory.GENERAL,
        0.4,
        r"(?<!if )(?<!when )(?<!whether )\b(?:"
        r"your (?:[\w'-]+ ){1,6}?(?:is|are|was|were|will|has|have|had|must|can't|doesn't|comes?|came|costs?|got"
        r"|starts?|ends?|expires?|runs?|leaves?|arrives?|takes?|needs?)\b"
        r"|you(?:'re| are|'ve| have|'ll| will| got| scored| need| must| owe| paid| pay| leave| arrive)\b"
        r"(?! (?:like|love|find|want|see)\b))",
    ),
)
"""What an assistant's clause may state: commitments and what became of the listener's things; the labels of ids; and
about the listener's affairs in general what has something definite in it."""
