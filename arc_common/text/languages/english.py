"""English sentences: how they begin, ask, thank and join, whatever they state."""

import re

from arc_common.text.languages.signal import Hinted

__all__ = [
    "ASKING",
    "CHIT_CHAT",
    "CONDITION",
    "FORGET",
    "GIVEN",
    "JOINER",
    "LEAD_INS",
    "LISTENER",
    "PROPER_NAME",
    "QUESTION",
    "REPORTED",
    "REQUEST",
    "SAID_INSTEAD",
    "SUPPOSITION",
    "TAG",
    "TASK",
    "TEXT_TASK",
]

LEAD_INS = re.compile(
    r"^(?:"
    r"(?:no|nope|yes|yeah|yep|look|listen|see|right|fine|great|now|sure|well|sorry|thanks|thank you"
    r"|good (?:morning|evening|afternoon)|perfect|cool|nice|alright|look here)[,.;:!—–-]+\s+"
    r"|(?:oh|wow|aw+|hi|hey|hello|so|and|but|also|plus|anyways?|anyhow|okay|ok|um+|uh+|ah|hmm+|actually"
    r"|honestly|basically|unfortunately|apparently"
    r"|by the way|btw|fyi|one (?:more|last) thing|another thing|before i forget|just so you know"
    r"|for the record|for what it's worth"
    r"|(?:as|like) i said|to be (?:clear|honest)|in fact|mind you|also note|for (?:context|reference)"
    r"|in case it helps)(?=[\s,.:;!—–-])[\s,.:;!—–-]{1,4}"
    r"|(?:i (?:think|guess|believe|suppose|mean|should mention|should add|forgot to (?:say|mention)"
    r"|wanted to (?:say|mention)|(?:have to|must) (?:say|admit|confess))"
    r"|(?:just |please )?(?:note|remember|keep in mind|bear in mind|be aware)|the (?:thing|point) is"
    r"|(?:it )?turns out|what matters is)(?: that|,)?\s(?=(?:i|we|my|our|the|it|he|she|they|you)\b)"
    r"|(?:can|could|would|will) you (?:please |also |just |maybe |possibly )?(?=\w))",
    re.IGNORECASE,
)
"""What a sentence may begin with and lose nothing without."""

QUESTION = re.compile(
    r"^(?:what|who|whom|whose|which|why|how|when|where|is|are|am|was|were|do|does|did|can|could|would"
    r"|will|should|shall|may|might|have|has|had|any)\b.{0,400}\?\W{0,3}$"
    r"|\?\W{0,3}$",
    re.IGNORECASE | re.DOTALL,
)

REQUEST = re.compile(
    r"^(?!(?:how|what|which|why|where|who|when)\b)(?:[\w ,]{0,20}\s)?"
    r"(?:(?:can|could|would|will) (?:you|we|u)|(?:can|could) i)\b",
    re.IGNORECASE,
)
"""A question that asks for something to be done: what is to be done is said in it."""

_SUBJECT = (
    r"(?:i|you|he|she|it|we|they|there|this|that|these|those|the|my|our|your|his|her|their|an?|any|some|anyone|someone"
    r"|anybody|somebody|everyone|everybody|everything|anything|nobody)"
)

ASKING = re.compile(
    r"(?:(?:and|but|so|or|also|well|then|now|like|please|hey|ok|okay)\s){0,2}"
    rf"(?:(?:is|are|am|was|were|do|does|did|can|could|would|will|should|shall|may|might|must|have|has|had"
    rf"|isn't|aren't|wasn't|weren't|don't|doesn't|didn't|can't|couldn't|wouldn't|won't|shouldn't)\s{_SUBJECT}\b"
    rf"|(?:is|are|was|were|do|does|did|can|could|would|will|should|has|have)\s[A-Z]\w|what|whose|why|whom"
    rf"|(?:how|where)(?!\s(?:i|we|he|she|they|you|it)\b)|when\s(?:is|are|was|were|do|does|did|can|could|will|would|should)"
    r"|(?:who|which)(?!\s(?:i|we|he|she|they|has|have|had|is|are|was|were)\b)|any\b)",
    re.IGNORECASE,
)
"""How a clause of a question begins: verb before subject, or the word that asks."""

_LEADING = (
    r"(?:(?:and|but|so|or|also|well|then|now|ok|okay|hey|hi|hello|yes|no|sure|thanks|actually|please|pls|kindly|just|btw"
    r"|by the way|sorry)[\s,]{1,2}){0,3}"
)
SEEKING = re.compile(
    rf"^{_LEADING}(?:"
    # the order of a question, or the word that asks
    r"(?:is|are|am|was|were|do|does|did|can|could|would|will|should|shall|may|might|have|has|had)\s(?!not\b)[\w']"
    rf"|(?:is|are|was|were|do|does|did|ca|could|would|wo|should|have|has)n['’]?t\s{_SUBJECT}\b"
    r"|(?:(?:in|at|on|for|from|to|with|by|of|about|since|until)\s)?"
    r"(?:what|who|whom|whose|which|why|how|when|where)(?:['’]?(?:s|re|d|ll))?\b"
    r"|any(?:thing|one|body)?\s\w"
    # a request
    r"|(?:tell|give|show|find|list|remind|repeat|explain|summari[sz]e|recap|look|check|search|compare|describe|name"
    r"|continue|go\son|remember|recall|suggest|recommend|help|let\sme\sknow|quote|read|write|draft|rewrite|prepare|plan"
    r"|use|send|book|order|do|make|add|put|calculate|count|translate|confirm"
    r"|lemme|gimme|say|print|display|get|bring|pull|fetch|open|provide|state|create|generate|schedule|cancel|change|update"
    r"|delete|remove|review|verify|estimate|refresh)\s(?!(?:you|it|that)\s(?:know|is)\b)\w"
    r"|(?:recap|continue|go\son|help)\W*$"
    r")"
    r"|\b(?:please|pls|plz|remind\sme|tell\sme|let\sme\sknow|i\swonder|wondering|(?:not\ssure|no\sidea|curious)\s(?:what|who|which|when|where|how|if)"
    r"|what\s(?:was|is|did|were|are)|as\s(?:usual|before|last\stime)|the\susual|same\sas|last\stime|earlier"
    r"|(?:you|u)\s(?:remember|recall|said|told|mentioned|recommended|suggested|know\s(?:my|the|our|what|who|which|when|where))"
    r"|i\s(?:told\syou|mentioned)|i\sneed\s(?:the|my|our))\b"
    r"|(?<!no matter )\b(?:what|who|whom|when|where|how\smuch|how\smany)\W*$"
    r"|\b(?:forg[eo]t\w{0,4}|lost|(?:like|want|need)(?:ed)?\sto\sknow"
    r"|(?:(?:do|did|ca|could)n['’]?t|(?:do|did|can|could)\s?not)\s(?:remember|recall|find|know))\b",
    re.IGNORECASE,
)
"""A clause that looks for something: a question with or without its mark, a request, what was forgotten."""

TAG = re.compile(
    r",\s(?:(?:is|are|am|was|were|do|does|did|has|have|had|will|would|can|could|should)(?:n['’]t)?\s(?:i|you|he|she|it|we"
    r"|they|there)|right|correct|yes|no|ok|okay|yeah|huh|eh)\s?\?\W{0,3}$",
    re.IGNORECASE,
)
"""A question behind a statement that only asks to agree."""

GIVEN = re.compile(
    r"(?<=,\s)(?:since|because|as|given that|seeing as|considering)\s(?:i|we|my|our|he|she|they)\b", re.IGNORECASE
)
"""How the reason of a question begins, which is stated."""

TASK = re.compile(
    r"^(?:[\w' ]{0,30},\s)?(?:[\w']{1,12}\s){0,4}?(?:can|could|would|will) (?:you|i|we|u)\s"
    r"(?:(?:please|also|just|maybe|possibly|perhaps|at least|even|try to|go ahead and)\s){0,3}"
    r"(?:recommend|suggest|tell|give|show|explain|name|list|help|provide|describe|compare|summari[sz]e|write|rewrite"
    r"|create|generate|translate|elaborate|clarify|teach|search|look|analy[sz]e|check|think|share|advise|discuss|talk"
    r"|go over|walk|guide|come up|make|draft|add|edit|revise|include|format|convert|do|be|see|get|have|know|use"
    r"|expect|find out|say)\b",
    re.IGNORECASE,
)
"""A request for information, for a text, or for permission: what it is about is not stated."""

_SUPPOSITION = re.compile(
    r"^(?:(?:and|but|so|or|ok|okay|now|also|well)[\s,]{1,2}){0,2}(?:(?:but )?what if|imagine|suppos(?:e|ing)"
    r"|hypothetically|let's (?:say|imagine|assume|pretend|suppose)|assum(?:e|ing)|pretend"
    r"|say (?:i|we|he|she|they|there)\b)"
    r"|\b(?:i|we|he|she|they) (?:really |just |only |so |do )?wish(?:es|ed)? "
    r"(?:i|we|he|she|they|it|there|that|my|our|the)\b"
    r"|\b(?:if|as if|as though) (?:i|we|you|he|she|it|they|there|(?:the|my|our|his|her) \w{1,20}) "
    r"(?:only |ever |just )?(?:were|had|could|weren't|hadn't|didn't|wasn't)\b.{1,120}\b(?:would|wouldn't|could|might)\b"
    r"|^(?:(?:and|but|so|or|also|well)[\s,]{1,2}){0,2}if (?:i|we) .{1,120}\b(?:i|we)(?:['’]d| would| could| might)\b"
    r"(?! (?:like|love|prefer|appreciate|rather|need|want|be (?:happy|glad|grateful)))"
    r"|\b(?:would|wouldn't|could|might)(?:n't)? .{1,120}\bif (?:i|we|you|he|she|it|they|there) (?:only |ever |just )?"
    r"(?:were|had|could|weren't|hadn't|didn't)\b",
    re.IGNORECASE,
)
SUPPOSITION = Hinted(
    _SUPPOSITION, ("if", "imagine", "suppos", "hypothetically", "let's", "assum", "pretend", "say", "wish")
)
"""A supposition: "what if", a wish, or a condition contrary to fact."""

_REPORTED = re.compile(
    r"(?:\b(?:and|but|so)\s)?"
    r"(?:\b(?:i|we|he|she|they|you|people|everyone|(?:my|our|his|her|their|the) \w{1,20}|[A-Z]\w{1,20})"
    r"(?:['’](?:m|re|s|ve|d|ll))?\s)?"
    r"(?:\b(?:was|am|were|is|are|been|have|has|had|did|do|does|just|also|still|really|always|keeps?|kept|even|would|will"
    r"|like to|going to)\s){0,4}"
    r"\b(?:ask(?:s|ed|ing)?|wonder(?:s|ed|ing)?|curious|unsure|undecided|unclear|debating"
    r"|(?:not|never|\w{2,6}n['’]t)\s(?:really |quite |exactly |entirely |completely ){0,2}(?:sure|certain|clear|know"
    r"|decided|remember|recall|tell)"
    r"|no idea|want(?:s|ed)? to know|love to know|like to know|need to know|question is|question was)"
    r"(?:\s(?:me|him|her|us|them|you|about|of|on|to|again|(?:my|our|his|her|their|the) \w{1,20})){0,2},?\s"
    r"(?:if|whether|what|when|where|who|whom|whose|which|why|how)\b",
    re.IGNORECASE,
)
REPORTED = Hinted(
    _REPORTED,
    (
        "ask",
        "wonder",
        "curious",
        "debating",
        "sure",
        "certain",
        "clear",
        "know",
        "decided",
        "remember",
        "recall",
        "tell",
        "idea",
        "question",
    ),
)
"""A reported question: "she asked if ..."."""

CHIT_CHAT = re.compile(
    r"^(?:please )?(?:list|explain|recommend|create|tell me|provide|describe|summari[sz]e|generate|suggest|show me"
    r"|help me|teach me|compare|learn about|elaborate|rewrite|translate|write (?:a|an|me|the))\b"
    r"|\b(?:give me|looking for|need|want|get) (?:\w+ ){0,3}(?:information|info|ideas?|tips|examples?"
    r"|advice|suggestions)\b|"
    r"\b(?:thank(?:s| you| u)|thx|appreciate|sorry (?:for|about|to|if)|apolog\w{2,6}|hope (?:you|your"
    r"|this|that|it|we|all)|no (?:rush|worries|problem|need)|let me know|get back to (?:me|you)"
    r"|(?:makes?|made|making) (?:any |a lot of |perfect |more )?sense|rambl\w{1,4}|bear with me"
    r"|good (?:morning|evening|night|luck|point|idea|question)|have a (?:good|great|nice|lovely)"
    r"|take care|talk (?:to you )?(?:soon|later)|see you|nice to (?:hear|meet)|glad (?:to|you|that|i)"
    r"|happy to (?:hear|help)"
    r"|(?:you|you've|you're|you are) (?:probably|been|so|really|very|right|welcome|amazing|great"
    r"|the best)|sounds? (?:really |very |so |like |pretty ){0,2}(?:helpful|interesting|perfect|good"
    r"|great|like|amazing|awesome|fun|cool|wonderful)|(?:that|this|it)(?:'s"
    r"| is| was| sounds?) (?:really |so |such |very |pretty |quite |a |an ){0,3}(?:great|good|nice"
    r"|cool|awesome|amazing|funny|interesting|wonderful|fantastic|lovely|helpful|awful|fine|true|right"
    r"|fair)"
    r"|i (?:totally |completely |really |do |did )?(?:wonder|understand|agree|see what|know what"
    r"|hear you|get it|can imagine|can't wait|keep telling|was wondering|was just|laughed)"
    r"|don't (?:know|worry|mind|get me|mention it|bother(?=\W*$))|never ?mind|(?:only|just) kidding"
    r"|(?:better late than|never say) never|not (?:sure|certain|an expert)|no idea|to be (?:perfectly "
    r"|completely |totally )?honest|i (?:might|may|could|should|will|'ll) (?:well |probably |perhaps "
    r"|just |also )?(?:think|come back|have another|check|look|try|give it|definitely|keep that)"
    r"|i'll (?:definitely|try|check|look|think|keep|give|have|be sure|make sure)|in (?:your"
    r"|my) (?:opinion|view)|what do you think"
    r"|(?:i'm|i am) (?:so |really |very |just )?(?:excited|happy|glad|thrilled|curious|interested"
    r"|wondering|looking forward|thinking|grateful|proud|rambling|trying|hoping to (?:hear|learn"
    r"|find))|looking forward|sleep on it|slipped my mind|out of curiosity|long (?:message|story))\b",
    re.IGNORECASE,
)
"""Courtesies, comments on the conversation itself, and tasks for the assistant."""

PROPER_NAME = re.compile(
    r"(?<![.!?…] )(?<=[\w,;:'’\"“(-] )(?!I\b|I['’]|Ok\b|OK\b|English\b|Monday|Tuesday|Wednesday"
    r"|Thursday|Friday|Saturday|Sunday)"
    r"(?:(?:Dr|Mr|Mrs|Ms|Prof|St)\.\s)?[A-ZÀ-ÖØ-ÞĀ-Ž][\w’'&-]{1,30}(?:\s(?:(?:of|de|la|van|von|der|the"
    r"|and|&)\s)?[A-ZÀ-ÖØ-Þ0-9][\w’'&.-]{0,30}){0,4}"
)
"""Capitalised words that are not the first of their clause."""

LISTENER = re.compile(r"\b(?:you|your|yours|yourself|you're|you've|you'll|you'd)\b", re.IGNORECASE)
"""What is said of the listener, mostly encouragement."""

JOINER = re.compile(
    r"\s(?=(?:and|but|so|because|since|although|though|while|which|who|where|until|unless|if|when"
    r"|or)\s)"
)
"""Where a long clause may be divided."""

CONDITION = re.compile(
    r"^(?:(?:and|but|so|or|also|ok|okay|now|well|then|hi|hey|hello)[\s,]{1,2}){0,2}"
    r"(?:if|unless|in case|assuming|provided|supposing|even if|(?:should|were) (?:i|we)"
    r"|when(?:ever)? (?:i|we)(?!\s(?:was|were|had|did|got|went|came|left|bought|made|took|\w{2,12}ed)\b))\b",
    re.IGNORECASE,
)
"""How a clause begins that says in which case the question behind it is asked."""

_LEADS = (
    r"(?:(?:please|kindly|now|next|just|also|then|so|and|actually|sorry|hi|hey|ok|okay|oh|no|help me"
    r"|(?:can|could|would|will) you|you (?:can|may|should)|i(?:['’]d like| want| need| would like) you to)"
    r"[\s,.!]{1,3}){0,4}"
)

FORGET = re.compile(
    rf"^{_LEADS}(?:forget\b(?!\s(?:to|it|not)\b)|unlearn\b"
    r"|(?:don['’]t|do not|stop|never) (?:remember(?:ing)?|stor(?:e|ing)|sav(?:e|ing)|memori[sz](?:e|ing)"
    r"|keep(?:ing)? in mind)\b"
    r"|(?:delete|erase|remove|drop|discard|wipe|clear|scrap)\b[^.!?\n]{0,40}?\b(?:memor(?:y|ies)|your (?:notes|records)"
    r"|what (?:i|we) (?:said|told|mentioned|wrote)|that (?:i|i['’]m|i['’]ve|my|we))\b)",
    re.IGNORECASE,
)
"""How a sentence begins that asks to forget what it says."""

SAID_INSTEAD = re.compile(
    r"[,;.—–-]\s(?:(?:but|and|because|since|as|now|instead|actually|in fact|these days)[\s,]{1,2}){0,2}"
    r"(?=(?:i|i['’]m|i['’]ve|we|it['’]s)\s)|\s(?:because|since)\s(?=(?:i|i['’]m|i['’]ve|we)\s)",
    re.IGNORECASE,
)
"""Where behind what is to be forgotten something begins that is stated."""

TEXT_TASK = re.compile(
    rf"(?:^|(?<=[.!?,]\s))[ \t]*(?:(?:an? )?(?:example|sample)\b|{_LEADS}"
    r"(?:translate|proofread|rewrite|rephrase|paraphrase|summari[sz]e|polish|shorten|transcribe|spell-?check"
    r"|(?:correct|fix|check|improve|edit|review)\s(?:it|this|that)\b(?!\sout\b)"
    r"|(?:correct|fix|check|improve|edit|review)\s[^:\n\"“.]{0,40}?\b(?:grammar|spelling|english|text|sentences?"
    r"|paragraph|translation|wording|essay|letter|e-?mail|draft)))\b"
    r"(?:[^:\n\"“.]{0,60}(?::\s{0,3}|(?=[\"“]))|[^:\n]{0,40}\b(?:following|below)\b[^:\n]{0,40}\n)",
    re.IGNORECASE | re.MULTILINE,
)
"""What asks for work on a text, to where that text begins."""
