"""English: the forms of its questions, suppositions, joints and statements of facts; its words are in `english.txt`."""

from arc_common.text.languages.language import Language, Pattern, vocabulary

_WORDS, _PHRASES = vocabulary("english")
_AUXILIARY = r"(?:is|are|am|was|were|do|does|did|can|could|would|will|should|shall|may|might|have|has|had)\b"
_SUBJECT = r"(?:i|we|it|that|this|they|he|she|you|my|our|there)\b"
_ASKS = rf"(?:what|who|whom|whose|which|why|how|where|when(?! {_SUBJECT}))(?:'?s)?\b"
_I, _CHANGED, _LEFT = r"\b(?:i|we)(?:'\w+)?", _PHRASES["changed"], rf"(?<!n't |not )(?<!never ){_PHRASES['left']}(?!-)"
_ADVERBS = r"(?:(?:\w+ly|also|just|always|often|still|already|now|never|even|don't|do not|no longer|do) ){0,3}"
_PASTS = "|".join(form for form, base in _WORDS["base_forms"].items() if form != base)
_NAME, _FINAL = r"(?-i:([A-Z][\w'&-]*(?: [A-Z][\w'&-]*){0,2}))", rf"{_PHRASES['final_limits']}(?=(?: please)?\W*$)"
_SINGLE = rf"(?:[\w'-]+ ){{0,3}}?(?:{_PHRASES['single_valued']}|(?<!'s )name|(?<=my )number)s?"
_NUMBER = rf"(?:[$€£¥₩]?\d[\w.,:%€-]*|{'|'.join(_WORDS['numbers'])})"
_ALONE = rf"(?=(?:,? (?!{_PHRASES['asserted']}\b)[\w'€-]+){{0,4}}(?: (?:is|are|works?)(?: {_PHRASES['fine']})?)?\W*$)"
_GUESSED = rf"(?:(?:have|'ve) (?:been|had|{_PASTS}|\w+ed)|(?:be|feel) {_PHRASES['guessed']}|be .* by now)"
_LEADS = rf"(?:{_PHRASES['leads']}[\s,.!]{{1,3}}){{0,4}}"

ENGLISH = Language(
    name="English",
    script="latin",
    stemmer="english",
    thesaurus="english_thesaurus",
    **_WORDS,
    lead_ins=Pattern(
        rf"^(?:(?:{_PHRASES['answers']}|(?:hey|hi|thanks|wow|woah),? [A-Z]\w+)[,.;:!—–-]+\s+"
        rf"|(?:{_PHRASES['interjections']}|speaking of[^,]{{1,30}})[\s,.:;!—–-]{{1,4}}"
        rf"|{_LEADS}(?:i (?:need|want) you to )?{_PHRASES['reminders']}"
        r"(?:\s?[,:;—–-]+\s+| that (?!time|one|day)| (?=(?:i|we|my|our)\b))"
        r"|i (?:think|guess|mean|(?:just )?wanted to (?:say|mention))(?: that)? (?=(?:i|we|my)\b))"
    ),
    lead_outs=Pattern(rf", {_PHRASES['closings']}\W*$"),
    seeking=Pattern(
        rf"^(?:{_PHRASES['openings']}[\s,]{{1,2}}){{0,3}}(?:{_AUXILIARY} (?:you|{_PHRASES['determiners']})\b"
        rf"|(?P<asked>{_AUXILIARY} (?:{_SUBJECT}|(?-i:[A-Z]))|{_ASKS}(?! {_SUBJECT}))|\w+n't {_SUBJECT}"
        rf"|any(?:thing|one|body)? \w|(?:{_PHRASES['prepositions']} )?{_ASKS}"
        rf"|{_PHRASES['requests']}\b(?!-| (?:is|are|was|makes|has)\b))"
        rf"|\b(?:wonder|wondering|curious|sure|know|see|asked) (?:{_ASKS}|if\b|whether\b)"
        rf"|\b(?:{_PHRASES['recollections']}|(?:please|what|when|where)\W*$)\b"
    ),
    confirming=Pattern(
        rf"(?:(?:, |(?<!\bthe )\b(?!{_PHRASES['placed']} )[\w:']+ )(?:right|correct|huh)|, {_AUXILIARY} {_SUBJECT}"
        rf"|(?:, )?\b\w+n't {_SUBJECT}|\byou\b.*\bthen,? (?:yes|no))\W*$"
    ),
    relating=Pattern(
        rf"which (?:{_SUBJECT}|(?!\w+ {_AUXILIARY}))|where (?!{_AUXILIARY}|to\b)|whos?e? (?!do|did|can)|(?:is|was) an? "
    ),
    chit_chat=Pattern(
        rf"\b(?:{_PHRASES['courtesies']}|let's (?!go with|meet|take|.*\wday)|(?:is|are|and|the|an?|(?<!\d )works?)\W*$"
        r"|i'll (?!go with|take the|be |have |need )|(?:that|this|it)(?:'s| is| was) (?:all|it|[a-z]+\W*$)"
        r"|(?:love|like) (?-i:it|this|that|how|(?<!n't like )the|all)|(?:is|are|'s|looks?|so) (?:so|both|much))\b(?!'t)"
    ),
    supposition=Pattern(
        rf"\b(?:{_PHRASES['suppositions']}|(?:would|i'd)(?! (?:like|love|prefer|rather)\b)|must ?{_GUESSED})\b"
    ),
    joining=Pattern(
        rf",? {_PHRASES['joints']}(?= (?:{_SUBJECT}|(?:is|was)\b))|(?=, wh(?:ich|ere|o) )|, so(?= )|[;!] | [–—-]+ "
    ),
    lasting=Pattern(
        # "I play the cello": the present of a verb that is not one of thinking and wishing
        rf"^(?:i|we(?= (?:live|work|have|run|rent|host|do)\b)) {_ADVERBS}"
        rf"(?!(?:{_PHRASES['thoughts']}|{_PASTS})\b)[a-z]+(?<![^e]ed)\b(?!')"
        # "I'm a nurse", "we have adopted", "I've been painting"
        rf"|{_I} {_ADVERBS}(?:(?:am|are|was|were|have|been) ){{0,2}}"
        rf"(?:an?(?! (?:bit|lot|little|few|mix|big)\b)|{_PHRASES['states']}"
        rf"|been (?!{_PHRASES['musing']})\w+ing)\b|\b(?:(?:last|next|this) {_PHRASES['spans']}|{_PHRASES['recent']})\b"
        # "My sister Ann lives", "my sister, Ann", "Ann, my sister,"
        r"|^(?:my|our) (?:[\w'-]+ ){1,2}(?:is|are|has|have|can't|can|will|doesn't|[a-z]{3,}s|named|called|died)\b"
        r"|\b(?:my|our) \w+, (?-i:[A-Z])|^\w+, my \w+,"
    ),
    asserting=Pattern(rf"'s|\b(?:{_PHRASES['asserted']}|\w+ed)\b"),
    wanting=Pattern(
        r"\b(?:(?:i|we)(?:'\w+)?(?: \w+){0,2} (?:want(?:ed)?|need(?:ed)?|requir\w+|wish\w*|hop(?:e|ed|ing))"
        rf"|{_PHRASES['wanted']}|(?:you|i)(?:'d| would| will)(?: \w+)? (?:like|love|rather)|would(?! prefer)"
        r"|(?:want|like|love|prefer|trying|hoping)(?:ed|ing)? (?:you |to ))\b(?!'t)"
    ),
    forbidding=Pattern(
        rf"^(?:(?:yes|please|so|and|but|also),? ){{0,2}}(?:(?P<limit>{_PHRASES['limits']} (?:\w+ )?{_NUMBER}{_ALONE}"
        rf"|(?:(?:(?:by|before|after|until) [\w:'-]+|{_NUMBER})(?: [\w'€-]+){{0,4}}|\w{{4,}}s),? {_FINAL}"
        rf"|(?:{_PHRASES['exceptions']}|(?:any|every)\w* (?:\w+ )?(?:but|{_PHRASES['exceptions']})) [\w'-]+{_ALONE})"
        rf"|(?:(?:i|we) never|never|always) (?!(?:had|been|make|want|said|told|did|went|got|{_PASTS}|\w+(?:ed|ing))\b)"
        rf"|(?:don't|do not) (?!{_PHRASES['idioms']}|be )|{_PHRASES['ruled_out']}|no [\w ]{{3,20}}"
        rf" (?:{_PHRASES['prepositions']}|please)|not (?:in|on|at|with|from|near) (?-i:[A-Z])\w+{_ALONE})"
        rf"\b|\b(?:{_PHRASES['forbidden']}|(?:is|are|am|'s|'m|'re) (?!n(?:ot|ever) )(?:\w+ )?{_PHRASES['diets']}"
        rf"|(?:cannot|(?:ca|wo|do)n't) {_PHRASES['refused']}|(?:the|our|every|all) (?:\w+ ){{1,2}}must"
        rf" (?!have|feel|{_GUESSED})\w+|(?:^|so |and |but |with |, )no(?:thing)? (?:\w+ ){{1,5}}{_PHRASES['whom']})\b"
    ),
    preferring=Pattern(
        rf"{_I} {_ADVERBS}(?:(?:much|would|can't|cannot) )?(?:like|love|enjoy|prefer|hate|dislike|avoid|stand)\b"
        rf"(?! to {_PHRASES['asked_for']})|\bmy favou?rite \w|^(?:please )?(?:always|never)\b|\b{_PHRASES['fond']}\b"
    ),
    vague=Pattern(
        rf"\b{_PHRASES['unnamed']}\b|^{_PHRASES['pointing']}\b"
        r"|\b(?:one|another|(?P<bare>that|this|these|those|(?-i:it|them|there|both|few)(?=\W*$|[,;])))"
        r"(?=\W*$|[,.;]| (?:and|but|so|for|in|on|at|as|to|too|with|before|after|over|until)\b)"
    ),
    denying=Pattern(
        rf"(?:n't|\bnot|\bnever)\b(?! only| just| {_PHRASES['left']}\b)|\b(?:{_PHRASES['denied']}|{_LEFT})\b"
    ),
    changing=Pattern(rf"\b(?:{_PHRASES['now']}|instead|new one|replaced|swapped|{_CHANGED})\b"),
    leaving=Pattern(rf"\b(?:{_LEFT}|{_PHRASES['given_for']})\b"),
    replacing=Pattern(
        rf"\b(?:instead of|{_PHRASES['given_for']})((?: (?!(?:and|but|to|with|for)\b)(?:[^\s;,]|,\d)+)+)"
    ),
    parting=Pattern(rf"[;!] | [–—-]+ |(?:,|,? (?:and|but|so))(?= (?:i|we|now|{_PASTS}|\w+ed)\b)"),
    naming=Pattern(
        rf"^(?:(?:i|we)(?:'ve| have)? {_CHANGED} )?(?:my|our|the) (?P<name>[\w' -]{{2,40}}?)"
        rf"(?:(?: {_PHRASES['to_be']}|'s)+(?P<place> in| at| on|(?<=moved) to)?(?: to| with)?|(?: over)? to)"
        r" (?P<value>(?-i:[A-Z])[\w.'& -]*?)(?: now)?$"
        r"|^(?P<value2>(?-i:[A-Z])[\w.' -]*?) is (?:now )?(?:my|our) (?P<name2>[\w' -]+?)(?: now)?$"
    ),
    relations={
        "home": Pattern(rf"\b(?:lives?|living|resides?|based|moved|relocated)(?: now)? (?:in|to) {_NAME}"),
        "employer": Pattern(rf"\b(?:(?:works?|working|employed)(?: now)? (?:at|for)|joined|started at) {_NAME}"),
        "favourite": Pattern(r"\bmy favou?rite (\w+) is (\w+)"),
        "role": Pattern(rf"\b(?:my|our|(\w+)'s) (?:new )?({_PHRASES['roles']}) is {_NAME}"),
        "plan": Pattern(rf"\b(?:on|{_PHRASES['graded']} to) (?:the|an?) (\w+) (?:plan|tier)\b"),
        "age": Pattern(r"\b(?:am|i'm|is|turned) (?:now )?(\d{1,2})(?: years? old)?\W*$"),
    },
    attribute=Pattern(
        rf"\b(?:my|our|the|[A-Z]\w+'s) (?P<name>{_SINGLE})(?: (?:address|date|time))?"
        rf"(?:'s|(?: (?:is|are|was|were|has|have|been|now|got|just|{_CHANGED}))+(?: (?:to|at|on|from))?) (?P<value>.+)"
        rf"|^(?:i|we)(?:'ve| have| just)* {_CHANGED} (?:my|our|the) (?P<name2>{_SINGLE})(?: \w+){{0,6}}?"
        r" to (?P<value2>.+)"
    ),
    follow_up=Pattern(rf"\s*(?:(?:ok(?:ay)?|well|hmm+|thanks|right|great|yes|no)[,.!]*\s+)*{_PHRASES['follow_ups']}\b"),
    pointer=Pattern(
        rf"\b(?:it|(?P<personal>its|theirs?|they|them|he|him|his|she|hers?)|those|these|this|{_PHRASES['ranks']} ones?"
        rf"|the (?:former|latter|others?)|(?:that|which|other|another) {_PHRASES['cases']}|(?:{_PHRASES['before_that']}"
        rf"|{_AUXILIARY}) that(?! (?:{_SUBJECT}|{_AUXILIARY}))|{_PHRASES['ways']} there)\b|\b(?:that|there)[\s?.!]*$"
    ),
    defining=Pattern(r"(?s)^(?!.*\bthe\s+\w).*\b(?:(?:what|who)(?:['’]s| is| are| was)|define|meaning of|explain)\b"),
    self_quoted=r"(?:I|I['’](?:m|ve|d|ll)|[Mm]y|[Ww]e|[Oo]ur)\s[a-z]",
    forget=Pattern(
        rf"^(?!(?:(?!\byou\b)[^.!?\n])*\?){_LEADS}(?:forget\b(?!\s(?:to|it|not)\b)|(?:don['’]t|do not|stop|never) "
        r"(?:(?:remember|stor|sav|memori[sz])\w*|keep(?:ing)? in mind)\b(?! (?:if|whether|when)\b)"
        rf"|{_PHRASES['erasing']}\b(?:[^.!?\n]{{0,40}}?\b{_PHRASES['remembered']}"
        r"| (?:[\w ]{0,12}(?:fact|part|thing) )?that (?:i|i['’]m|i['’]ve|my|we))\b)"
    ),
    said_instead=Pattern(
        rf"(?s).{{0,1200}}?(?:[,;.—–-]\s(?:{_PHRASES['turns']}[\s,]{{1,2}}){{0,2}}|[\s,](?:because|since)\s)"
        r"(?=(?:i|i['’]m|i['’]ve|we|it['’]s)\s)"
    ),
    text_task=Pattern(
        rf"(?m)(?:^|(?<=[.!?,]\s))[ \t]*(?:(?:an? )?(?:example|sample)\b|{_LEADS}(?:{_PHRASES['tasks']}"
        r"|(?:correct|fix|check|improve|edit|review)\s(?:(?:it|this|that)\b(?!\sout)"
        rf"|[^:\n\"“.]{{0,40}}?\b{_PHRASES['texts']})))\b"
        r"(?:[^:\n\"“.]{0,60}(?::\s{0,3}|(?=[\"“]))|[^:\n]{0,40}\b(?:following|below)\b[^:\n]{0,40}\n)"
    ),
)
