"""English: its words, how its sentences ask, suppose and join, and how people state facts."""

from arc_common.facts import FactCategory
from arc_common.text.languages.language import (
    AnswerForms,
    Language,
    Pattern,
    Relation,
    Statements,
    kinds_of_words,
    signals,
    synonyms,
    word_set,
)

_STOP_WORDS = (
    "a about above after again all also am an and any anyone anything are as at be because been before being below "
    "between both but by can cannot could did do does doing done down during each ever every few for from further get "
    "give given go got had has have having he hello her here hers herself hi him himself his how i if in into is it "
    "its itself just kindly let like many may me might more most much must my myself no nor not now of off on once "
    "only or other our ours ourselves out over own please remember remind same say says shall she should so some such "
    "tell than thank thanks that the their theirs them themselves then there these they this those through to told "
    "too under until up upon us very was we were what whatever when where whether which while who whom whose why will "
    "with would yes you your yours yourself don't doesn't didn't isn't aren't wasn't weren't can't couldn't won't "
    "wouldn't shouldn't mustn't haven't hasn't hadn't i'm i've i'll i'd we're we've we'll you're you've you'll it's "
    "he's she's they're they've that's there's what's who's where's when's how's let's"
)

STOP_WORDS = frozenset(_STOP_WORDS.split())
"""English words, including question words, that say nothing about what is asked for."""

_GENERAL_NOUNS = (
    "people person man men woman women child children boy boys girl girls creature creatures thing things object "
    "objects stuff business affair affairs matter matters move moves place places question questions idea ideas"
)

GENERAL_NOUNS = frozenset(_GENERAL_NOUNS.split())
"""Nouns that stand for another as a pronoun does: "the place has to be …" says no more than "it has to be …".

The class of general nouns of Halliday & Hasan 1976, "Cohesion in English", 6.1; Korean ones are stop words.
"""

_IRREGULAR = (
    "arise arose arisen|awake awoke awoken|bear bore borne|beat beaten|become became|begin began begun|bend bent|"
    "bet bets|bind bound|bite bit bitten|bleed bled|blow blew blown|break broke broken|breed bred|bring brought|"
    "build built|burn burnt|buy bought|catch caught|choose chose chosen|come came|creep crept|deal dealt|dig dug|"
    "draw drew drawn|dream dreamt|drink drank drunk|drive drove driven|eat ate eaten|fall fell fallen|feed fed|"
    "feel felt|fight fought|find found|flee fled|fly flew flown|forbid forbade forbidden|forget forgot forgotten|"
    "forgive forgave forgiven|freeze froze frozen|grow grew grown|hang hung|hear heard|hide hid hidden|hold held|"
    "keep kept|kneel knelt|know knew known|lay laid|lead led|lean leant|learn learnt|leave left|lend lent|lose lost|"
    "make made|mean meant|meet met|pay paid|prove proven|ride rode ridden|ring rang rung|rise rose risen|run ran|"
    "see saw seen|seek sought|sell sold|send sent|sew sewn|shake shook shaken|shine shone|shoot shot|show shown|"
    "shrink shrank shrunk|sing sang sung|sink sank sunk|sit sat|sleep slept|slide slid|smell smelt|speak spoke spoken|"
    "speed sped|spell spelt|spend spent|spill spilt|spin spun|spoil spoilt|spring sprang sprung|stand stood|"
    "steal stole stolen|stick stuck|sting stung|strike struck|swear swore sworn|sweep swept|swell swollen|"
    "swim swam swum|swing swung|take took taken|teach taught|tear tore torn|think thought|throw threw thrown|"
    "understand understood|wake woke woken|wear wore worn|weave wove woven|weep wept|win won|withdraw withdrew "
    "withdrawn|write wrote written|child children|man men|woman women|foot feet|tooth teeth|goose geese|mouse mice|"
    "person people|wife wives|knife knives|shelf shelves|half halves|wolf wolves|loaf loaves|"
    "thief thieves|scarf scarves|good better best|bad worse worst"
)

BASE_FORMS = {form: base for group in _IRREGULAR.split("|") for base, *forms in (group.split(),) for form in forms}
"""Irregular English forms that no suffix rule reduces ("grew": "grow")."""

MARKERS = word_set(
    "the i is are my you he she we they it its of and to for with this that these those have has had not do does did "
    "don't i'm i've i'll it's isn't what how when where who why which would can could should from at by be been your "
    "our their his me us if or but because about there than then some any as"
)
"""Frequent words that no other language in Latin letters shares."""

COMMON_WORDS = STOP_WORDS | word_set(
    """
    able absolutely across actual actually add advice afraid afternoon against ago agree ah ahead almost alone along
    already alright although always amazing another answer answered answering anybody anyhow anymore anyway apart
    apologise apologies apologize appreciate around ask asked asking away awesome awful back bad basically bear
    beautiful became become began begin behind believe best bet better big bit breakfast bring brings bunch busy
    call called came case catch certain certainly chance change changed chat clear clearer clearly come comes coming
    common complain completely complicated confused confusing consider convenient cool couple course crazy curious
    currently curiosity day days deal dealing dealt decide definitely depend depends detail details difference
    different difficult dinner dreadful earlier early easier easily easy either else end ended ends enjoy enjoyed
    enjoying enough entire especially etc even evening everybody everyone everything everywhere exact exactly
    example excellent excited exciting excuse expect expected expecting experience expert explain explained
    explaining extra face fact fair fairly fall far fast favorite feel feeling feelings feels felt figure final
    finally find finding fine first follow forget forgot forward found friend friends fun funny fuss future gave
    general generally gets getting gives giving glad goes going gone gonna good gotta great guess guys half hand
    happen happened happening happens happy hard hardly he'd he'll head hear heard hearing help helped helpful
    helping helps here's hey hold honest honestly hope hoped hopefully hoping however huge hundred idea ideas
    imagine imagining important indeed inside instead interested interesting issue it'd it'll job keep keeping keeps
    kept kind kinds knew know knowing known knows lack lately later laugh laughed learn learned least leave left
    less letting life liked likes line list listen listening little live living lol long longer look looked looking
    looks lose lot lots love loved lovely luck lucky made main make makes making manage matter matters maybe mean
    means meant meanwhile mention mentioned mentioning mess messy message messages mind mine minute moment moments
    month months morning mostly move name near nearly necessary need needed needing needs neither never new next
    nice night nobody none normal normally note nothing notice noticed nowhere number obviously odd often oh ok okay
    old one ones onto open opinion opinions opposite option options order others otherwise ought outside overall
    overwhelmed overwhelming page pages part particular particularly parts past patience patient people perfect
    perfectly perhaps person picture piece pile pity place places plan plans pleasant plenty plus point points
    possible possibly practice pretty prefer probably problem problems process proper properly provide put question
    questions quick quickly quiet quite ramble rambling rather read reading ready real realise realised realize
    realized really reason reasonable recently recommend regarding remembered remark reply rest result right road
    room round run running rush said sat saw saying second see seeing seem seemed seems seen send sense sent series
    several share she'd she'll shoes short shortly show shows side silly similar simple simpler simply since sit
    sitting situation slightly slipped slow slowly small somebody somehow someone something sometimes somewhat
    somewhere soon sorry sort sorted sound sounds speak special specific spend spinning stand standing start started
    starting starts state stay step steps still stop stopped story straight strange stuff stupid suggest suggestion
    suggestions super suppose supposed sure surely surprise take taken takes taking talk talked talking tea telling
    ten tend terms terrible thankful that'd that'll they'd they'll thing things think thinking thinks third thorough
    though thought thoughts thousand till time times tip tips tired today together tomorrow tonight took topic
    totally touch toward towards train tried tries trouble true truly truth try trying turn turned twice two type
    understand understanding understood unfortunately unless update upset use used useful uses using usual usually
    various via view wait waiting walk want wanted wanting wants way ways we'd weather week weekend weeks weird
    welcome well went whenever whole wish within without wonder wondered wonderful wondering word words work working
    works world worried worries worry worse worst worth write writing written wrong wrote yeah year years yep
    yesterday yet you'd based create created creating exploring explore focus improve include including incorporate
    information learning level light planning potential prepare recommendations resources responses strategies
    techniques assist assistance document provided style article essay generate prompt continue summary sentence
    paragraph
    """
)


_SUBJECT = (
    r"(?:i|you|he|she|it|we|they|there|this|that|these|those|the|my|our|your|his|her|their|an?|any|some|anyone|someone"
    r"|anybody|somebody|everyone|everybody|everything|anything|nobody)"
)


_LEADING = (
    r"(?:(?:and|but|so|or|also|well|then|now|ok|okay|hey|hi|hello|yes|no|sure|thanks|actually|please|pls|kindly|just"
    r"|btw|by the way|sorry)[\s,]{1,2}){0,3}"
)


_LEADS = (
    r"(?:(?:please|kindly|now|next|just|also|then|so|and|actually|sorry|hi|hey|ok|okay|oh|no|help me"
    r"|(?:can|could|would|will) you|you (?:can|may|should)|i(?:['’]d like| want| need| would like) you to)"
    r"[\s,.!]{1,3}){0,4}"
)


_KIN = (
    r"mum|mom|mother|dad|father|parents?|sister|brother|son|daughter|kids?|child|children|baby|toddler|little one"
    r"|eldest|youngest|twins?|wife|husband|spouse|partner|fiancée?|boyfriend|girlfriend|grandma|grandpa|grandmother"
    r"|grandfather|granny|aunt|uncle|cousin|niece|nephew|in-laws?|(?:mother|father|brother|sister)-in-law|step\w{3,8}"
    r"|boss|manager|supervisor|colleague|coworker|co-worker|teammate|assistant|landlord|landlady|tenant|roommate"
    r"|flatmate|housemate|neighbou?rs?|doctor|gp|dentist|vet|lawyer|accountant|teacher|tutor|coach|professor"
    r"|therapist|client|customer|dog|cat|puppy|kitten|horse|rabbit|parrot|hamster"
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

SIGNALS = signals(
    {
        ("prohibition", FactCategory.CONDITION, 0.7): (
            r"\b(?:never|under no circumstances|on no account|by no means)\b|(?:^|\b(?:please|just|so|and|but|kindly"
            r"|whatever you do,?)\s|[,;:—]\s)(?:do not|don't|avoid|stop|no more)\s" + _NOT_PROHIBITED + r"\w"
            r"|\b(?:must not|mustn't|may not|shall not|(?:is|are|'s|'re) not (?:to|allowed|permitted)|not (?:allowed"
            r"|permitted|supposed) to|no-go|taboo|(?:is|are) (?:forbidden|prohibited|banned|off[- ]limits"
            r"|out of the question))\b|^no (?!one\b|idea\b|problem|need\b|doubt\b|wonder\b|rush\b|way\b|matter\b"
            r"|thanks\b|worries\b|clue\b)(?:\w+ ){1,3}(?:in|on|at|near|after|before|for|during|inside|around|until"
            r"|with|from)\b|\b(?:out of the loop|off the table|out of bounds|keep (?:\w+ ){1,3}(?:away|out|off))\b"
            r"|\b(?:nobody|no one|nothing|none of \w{1,12}) (?:should|can|may|must|is|gets|goes|else)\b"
            r"|\b(?:should not|shouldn't|can't|cannot|can not|won't|will not|doesn't|does not|don't|do not) (?:be "
            r"|ever |have |eat|drink|take |use|touch|share|tell|call|go |stand|tolerate|handle|work |fit|drive|fly"
            r"|swim|climb|lift|park|accept|allow|do )"
        ),
        ("exclusion", FactCategory.CONDITION, 0.4): (
            r"\b(?:without|except(?: for)?|other than|instead of|rather than|nothing but|no \w{3,15} (?:allowed|please"
            r"|at all|either|whatsoever)|not (?:the|a|an|before|after|until|on|in|at|more than|less than|under|over)"
            r"|neither)\b|^no (?!one|idea|problem|need|doubt|wonder|rush|way|matter|thanks|worries|clue)\w"
        ),
        ("limit", FactCategory.CONDITION, 0.5): (
            r"\b(?:at (?:most|least)|no (?:more|less|later|earlier|longer|bigger|larger|fewer) than|(?:more"
            r"|less|fewer|later|earlier) than|up to|maximum|minimum|max|min|tops|the most (?:i|we)"
            r"|under (?:\w+ ){0,2}(?:minutes|hours|words|pages|days)|only|strictly|exclusively)\b"
        ),
        ("requirement", FactCategory.CONDITION, 0.45): (
            r"\b(?:must|(?:has|have|had|needs?|ought) to be|(?:i|we|he|she|they) (?:really "
            r"|absolutely )?(?:need|require|insist)s?|(?:has|have) to (?:be|have|go|get|stay|arrive|leave"
            r"|finish|include|fit|take)|required|mandatory|essential|make sure|be sure to|ensure|always"
            r"|insists?|wants? (?:it|the|them|everything|us|me)|(?:is|are) (?:supposed|meant|due) (?:to)?)\b"
        ),
        ("instruction", FactCategory.CONDITION, 0.4): (
            r"^(?:please |always |kindly |just |only |then |fine, )?(?:use|send|ship|call|ring|text|email"
            r"|write|reply|answer|keep|put|leave|book|cancel|order|add|remove|change|set|move|deliver|charge"
            r"|bill|pay|transfer|include|skip|drop|replace|return|refund|ask|speak|address|contact|get me"
            r"|give me|find me|look in|look for|reserve|schedule|remind|switch|pick|go with)\b"
        ),
        ("allergy or diet", FactCategory.CONDITION, 0.75): (
            r"\b(?:allerg\w{1,6}|rash|itch\w{1,3}|swell\w{0,3}|swollen|nausea\w{0,2}|intoleran\w{1,3}|hives"
            r"|anaphyla\w{1,6}|epipen|celiac|coeliac|vegans?|vegetarians?|pescatarian|halal|kosher|(?:gluten|lactose"
            r"|dairy|nut|sugar|alcohol)[- ]free|diabet\w{1,3}|reacts? (?:badly )?to|breaks? out in|makes? (?:me|him|her"
            r"|them|us) (?:sick|ill|sneeze|dizzy))\b"
        ),
        ("health", FactCategory.STATE, 0.6): (
            r"\b(?:diagnosed|pregnan\w{1,3}|asthma|migraines?|epilep\w{2,4}|arthritis|blood pressure"
            r"|prescri\w{2,7}|medication|dos(?:e|age)|surgery|operat(?:ed|ion)|hospital|injur\w{1,4}|chronic"
            r"|disab\w{2,6}|wheelchair|insulin|pacemaker|(?:takes?|on) (?!the |a |an |it|that|this|my|your|out"
            r"|up|off|time|care|place|part|some|turns|all|and)[a-z]{4,16}(?:in|ol|ine|ide|ate|il|am|one|um|xen"
            r"|cin|lin|rin)\b)"
        ),
        ("condition", FactCategory.CONDITION, 0.5): (
            r"\b(?:only (?:if|when|once|after|on|with|for)|unless|provided(?: that)?|providing|as long as|so long as"
            r"|as soon as (?!possible|you)|on condition|in (?:the )?case (?:of|it|the|he|she|they|we|i|anything"
            r"|something)|once the|not (?:until|before|unless)|until)\b|^(?:if|when|whenever|in case"
            r"|should) (?!you (?:want|like|have|need|could|can|know|don't mind|were|ask|get a)|i (?:may|understand"
            r"|remember|recall|were|knew)|possible|not\b|so\b|anything\b).{3,200}"
        ),
        ("decision", FactCategory.DECISION, 0.65): (
            r"\b(?:(?:have |'ve |has |finally |just |all )?(?:decided|settled (?:on|for)|agreed (?:to|on|that)"
            r"|opted (?:for|to)|chosen|chose|went (?:with|for)|going with|go (?:with|for(?! it\b)|ahead with)"
            r"|stick(?:ing)? (?:with|to)|ended up \w+ing|made up (?:my|our) mind|signed up for|ruled out|pulled out"
            r"|picked (?!up)|confirmed|committed to)|in the end|(?:i'll|we'll|i will|we will|i'd like to"
            r"|we'd like to) (?:take|have|go|book|order|buy|pay|cancel|keep|call (?:\w+ ){1,3}off|pick up|choose|switch"
            r"|use|need|stay|meet|bring)|(?:cancel|drop|postpone|reschedule)(?:led|ped|d)? (?:the|my|our|it|that))\b"
        ),
        ("preference", FactCategory.GENERAL, 0.5): (
            r"\b(?:prefer(?:s|red)?|(?:i|we|he|she|they)(?:'d| would) (?:\w+ ){0,2}(?:rather|sooner)|favou?rites?"
            r"|(?:can't|cannot) (?:stand|bear)|(?:i|we|he|she|they|\w+) (?:really |absolutely |also |both "
            r"|all )?(?:hates|loathes?|dislikes?|adores?|loves|enjoys|prefers)|(?:i|we|they) (?:really |absolutely "
            r"|also |both |all )?(?:hate|love|enjoy)|(?:give me|i'll take) (?:\w+ ){1,6}(?:over|any (?:time|day))"
            r"|don't get (?:along|on)|not a fan of|big fan of|fond of|(?:isn't|not) keen on|(?:more|not) my thing"
            r"|allergic to|more of an? |kind of person|\w+ person\b|works? (?:best|better) for (?:me|us)|(?:i"
            r"|we) (?:really )?like (?!to know|the (?:idea|sound)|that|those|it|this|your|how))\b"
        ),
        ("change", FactCategory.STATE, 0.5): (
            r"\b(?:no longer|not any ?more|anymore|used to|moved (?:to|in|out|from|house|back)|switched"
            r"|changed (?:to|from|my|our|jobs?|the)|replaced|stopped \w+ing|quit|gave up|given up|retired"
            r"|resigned|laid off|got (?:married|divorced|promoted|engaged|a new)|just (?:got|bought|started"
            r"|moved|joined|adopted|finished|had)|has (?:left|moved|gone|closed|stopped|dropped|changed)"
            r"|have (?:left|moved|stopped|changed)|was (?:moved|changed|cancelled|canceled|postponed|delayed"
            r"|replaced|upgraded|promoted)|(?:were|been) (?:moved|changed|living|working)|took (?:it|them"
            r"|\$?\d\S*) (?:back|off)|these days|as of|from now on|since the|so far|for now)\b"
        ),
        ("state", FactCategory.STATE, 0.5): (
            r"\b(?:broken|broke|failing|fails|failed|stuck|out of order|on the blink|playing up|faulty|damaged"
            r"|cracked|torn|leak(?:s|ing|ed)?|crash(?:es|ed|ing)?|missing|stolen|expired|overdue|pending"
            r"|won't (?:start|turn|open|close|charge|load|work|boot)|(?:doesn't|isn't|not|stopped) (?:working"
            r"|draining|charging|heating|work|responding)|currently|still (?:\w+ing|not|on|in|at|up|open|has"
            r"|have|waiting|broken)|is (?:down|full|empty|closed|open|late|sold out|back|gone|ready|off|out)"
            r"|are (?:out|off|closed|gone|down)|stuck on|(?:runs?|running) (?:on|low|out)|lost (?:my|our|the"
            r"|his|her))\b"
        ),
        ("identity", FactCategory.ENTITY, 0.55): (
            r"\b(?:my name(?:'s| is)|(?:lives?|based|born|works) (?:in|at|near|for|as|with) |to (?:be"
            r"|become) an? (?!bit|lot|little|good|great)|(?:is|are|was|'s|named|called|him|her|it) (?:called|named)"
            r"|(?:we|i|they|he|she) (?:call|named|call(?:ed)?) (?:him|her|it|them)|goes by|i(?:'m| am) (?:an? "
            r"|the )(?!bit|little|lot|mess|huge|big|newbie|total|complete|fan)[a-z]|i work (?:as|for|at|in|with|on)"
            r"|working (?:as|for) |(?:i|we|he|she|they) (?:head up|run|manage|own|teach|study|studies|runs|owns"
            r"|manages|teaches)\b|i do the|by (?:day|trade|profession)|(?:i|we|he|she|they)(?:'ve| have|'m"
            r"|'re)? (?:live|lives|lived|living|been living|grew up|born|based|from|staying|stay) ?(?:in|at|near|on"
            r"|with|from)?\b|belongs? to|speaks? (?:nothing|only|no|fluent)|(?:is|was|'s) the (?:one|person|guy|woman"
            r"|man) who|married to|engaged to|in charge of|responsible for|majoring|degree in)"
        ),
        ("copula", FactCategory.GENERAL, 0.3): (
            r"^(?!(?:i|you|it|that|this|there|these|those|he|she|they|we|what|who|how|when|why|where|which|if|so|let"
            r"|some|everyone|everything|people|nothing|none|one|all|here)\b)(?:[\w'-]+ ){1,5}(?:is|are|was"
            r"|were) (?!what|why|how|that)\w|\bit(?:'s| is| was) (?:the|my|our|his|her) (?!first|only|best|same"
            r"|thought)\w+ (?:\w+ ){0,3}(?:that|who)\b"
        ),
        ("necessity", FactCategory.GENERAL, 0.3): (
            r"\b(?:i|we|he|she|they) (?:had|have|has) to (?!say|admit|think|wait|ask|laugh|be honest|agree|explain|find"
            r"|figure)\w|\b(?:i|we|he|she|they)(?:'ll| will) (?!be (?:happy|glad|fine|ok)|see|find|think|let|try"
            r"|come back|have|look|ask|keep|do|get|tell|know)\w"
        ),
        ("event", FactCategory.STATE, 0.3): (
            r"\b(?:i|we|he|she|they)(?:'ve| have|'d| had)? (?:\w{2,10}ly |just |also |even )?(?:went|took|got|bought"
            r"|made|met|saw|found|gave|sent|left|lost|won|came|ate|began|built|chose|drove|flew|grew|hid|paid|ran"
            r"|sold|sang|spent|taught|wrote|wore|broke|been to|driven|known|worn|written|seen|done|lived|worked"
            r"|(?!want|need|like|love|mention|talk|remember|wonder|notice|expect|ask|tri|us|laugh|appreciat|enjoy"
            r"|learn|explain|seem|hop|figur|realiz|realis|look|decid|happen)[a-z]{2,12}ed)\b"
        ),
        ("activity", FactCategory.GENERAL, 0.3): (
            r"\b(?:i|we)(?:'m|'re| am| are|'ve been| have been) (?:\w{2,10}ly |also |still )?(?!think|wonder"
            r"|hop|try|feel|writ|ask|say|tell|go|be\b|do|rambl|look(?!ing (?:for|to)))[a-z]{2,12}ing\b"
            r"|\bin the mood for\b"
        ),
        ("relation", FactCategory.ENTITY, 0.4): (
            rf"\b(?:my|our|his|her|their)\s(?:\w+['’]?s?\s){{0,2}}(?:{_KIN})\b|^(?:dad|mum|mom|grandpa|grandad"
            rf"|grandma|granny)\b|,\s(?:my|our|his|her|their)\s(?:[\w'-]+\s){{0,2}}[\w'-]+,"
        ),
        ("habit", FactCategory.GENERAL, 0.3): (
            r"\b(?:i|we) (?:always |usually |mostly |often |normally )?(?!know|think|guess|have|had|hope|mean"
            r"|see|get|feel|need|want|just|could|would|should|can|will|was|were|might|may|must|did|and|read"
            r"|had|saw|find|understand|appreciate|wonder|remember|forgot|write|said|like|love|left|took|made"
            r"|went)[a-z]{3,10} (?:the|my|our|a|an|it|them|him|her|with|for|at|on|in)\b"
        ),
        ("possession", FactCategory.GENERAL, 0.38): (
            rf"\b(?:my|our|his|her|their)\s(?:[\w'’-]+\s){{1,4}}?(?:{_BE}|has|have|had|runs?|takes?|gets?"
            rf"|starts?|moved|measures?|costs?|comes?|needs?|wants?|lives?|works?|ended|broke|keeps?|can't|can"
            rf"|won't|will|speaks?|only)\b"
        ),
        ("holding", FactCategory.GENERAL, 0.28): (
            r"\b(?:i|we|he|she|they)(?:'ve| have|'s| has)? (?:got|have|has|own|owns|bought|ordered|booked|paid"
            r"|pay|drive|drives|wear|wears|take|takes|use|uses|shoot|play|plays|keep|keeps|need|needs|adopted"
            r"|picked|received|sold|sent|returned|signed|rented|rent|spend|spent|speak|speaks|grow|eat|drink"
            r"|read|graduated|visited|attended|fly|leave|arrive|land|dropped|fed|come|came|go|get|make|makes"
            r"|pulled|do) (?!a (?:question|look|lot|point|feeling|problem|chance|bit|good|great)|an idea"
            r"|no idea|to\b|been|the feeling|some (?:questions|ideas)|any|it\b|that\b|you\b|your\b)\w"
        ),
        ("plan", FactCategory.GENERAL, 0.38): (
            r"\b(?:(?:i|we|he|she|they)(?:'m|'re|'s| am| are| is| was| were)? (?:planning|hoping|going|aiming"
            r"|intend(?:ing|s)?|about|plan|hope|want|wants|flying|leaving|travel(?:l)?ing|moving|visiting|starting"
            r"|getting) (?:on|for|to|out|in|from|off|married|back|through)\b|(?:is|are|it's|'re) going to (?:be|have"
            r"|get|need|cost|take)|the (?:idea|plan|goal|aim) is|(?:i|we)(?:'d| would) (?:also )?(?:like|love) (?:to"
            r"|a|an|the|it)|i want (?:a|an|the|it)|want to try|(?:he|she|they)(?:'d| would) (?:like|love)"
            r"|looking (?:for|at) (?:a|an|the|something)|need(?:s)? (?:a|an|the|to) )"
        ),
        ("deadline", FactCategory.NUMERIC, 0.5): (
            rf"\b(?:due|deadline|by (?:the end|noon|midnight|tomorrow|tonight|then|next|{_DAY}|{_MONTH}|close)"
            rf"|before (?:the|noon|midnight|close|next|{_DAY}|{_MONTH}|christmas|easter)|no later than|expires?"
            rf"|at the latest|end of (?:the )?(?:day|week|month|year|business|{_MONTH}))\b"
        ),
        ("time", FactCategory.NUMERIC, 0.42): (
            rf"\b(?:{_DAY}|(?:half|quarter) (?:past|to) \w+|noon|midnight|every (?:\w+ )?(?:day|morning|evening"
            rf"|week|month|night|{_DAY})|(?:next|last|this) (?:week|weekend|month|year|spring|summer|autumn"
            rf"|fall|winter|{_DAY}|{_MONTH})|(?:in|since|until|from|of|during|next|last) (?:{_MONTH}|spring"
            rf"|summer|autumn|winter)|weekdays|weekends|(?:a|per|each|every) (?:day|week|month|year)|tomorrow"
            rf"|yesterday|alternate)\b"
        ),
        ("quantity", FactCategory.NUMERIC, 0.4): (
            rf"\b(?:{_NUMBER_WORD})\s(?!of us\b|or three|weeks? ago|times?\b|more\b|things?\b|ways?\b"
            rf"|different\b|people i\b|sides?\b)\w|\b(?:{_NUMBER_WORD}) of (?:us|them|you)\b|\b(?:strict"
            rf"|exactly|roughly|about|around) (?:{_NUMBER_WORD})\b"
        ),
        ("appearance", FactCategory.GENERAL, 0.3): (
            r"\b(?:red|blue|green|yellow|orange|purple|violet|lilac|pink|black|white|grey|gray|brown|beige"
            r"|navy|teal|turquoise|maroon|ivory|cream|gold|silver|oak|walnut|pine|leather|cotton|wool|size"
            r"|small|medium|large|xl|wide|narrow|tall|diameter|height|width)\b"
        ),
        ("label", FactCategory.NUMERIC, 0.3): (
            r"\b(?:order|booking|reservation|confirmation|reference|ref|ticket|case|invoice|account|policy"
            r"|tracking|serial|membership|student|employee|customer|licen[cs]e|passport|flight|model|version"
            r"|pin|code|budget|deposit|price|cost|fee|rent|salary|mortgage|balance|rate)\b"
        ),
        ("subject", FactCategory.GENERAL, 0.3): (
            r"^(?:the|my|our|his|her|their|(?!i|you|it|that|this|there|these|those|he|she|they|we|what|who|how"
            r"|when|if|so|let|some|people|every|any|no|and|but)[a-z][\w'-]{2,20}) (?:[\w'’-]+\s){0,4}?(?!this"
            r"|always|as\b|is\b|was\b|has\b|us\b)\w{2,12}(?:s|ed|make|put|cause)\s(?:\w+\s?){1,3}"
        ),
        ("statement", FactCategory.GENERAL, 0.25): (
            rf"^(?:the|this|these|those|all|everything|every|each|both|most"
            rf"|half)\s(?:[\w'’-]+\s){{0,6}}?(?:{_BE}|has|have|runs?|live[s]?|takes?|measures?|costs?|came"
            rf"|comes|goes|moved|belongs|wants?|needs?|starts?|ends?|kicks|works)\b"
        ),
        ("address", FactCategory.ENTITY, 0.75): (
            r"\b\d{1,5}[a-z]?,?\s(?:[A-Z][\w'’.-]{1,20}\s){1,3}(?:Street|St|Avenue|Ave|Road|Rd|Lane|Ln|Drive"
            r"|Dr|Crescent|Court|Ct|Place|Pl|Square|Sq|Way|Boulevard|Blvd|Terrace|Close|Row|Hill|Park)\b"
        ),
    }
)
"""Signals of statements in a user's clause. Weights below 0.33 need another signal, or specific words."""

_DONE = r"(?:\w{2,}ed|put|set|made|sent|left|kept|held|paid|bought|drawn|chosen|written|taken|given|found|got|lost|cut)"
"""A participle: of any regular verb, or of one of the commonest others."""

ASSISTANT = signals(
    {
        ("commitment", FactCategory.DECISION, 0.6): (
            r"\b(?:i've|i have|i|we've|we have) (?:just |now |already |also )?(?:booked|reserved|scheduled"
            r"|cancelled|canceled|ordered|registered|opened|issued|refunded|sent|shipped|updated|arranged"
            r"|set up|changed|moved|extended|applied|waived|confirmed|noted)\b|\b(?:i'll|i will|we'll"
            r"|we will) (?:send|call|ship|refund|deliver|remind|email|book|arrange|replace|credit|return"
            r"|contact|ring|escalate|waive|collect|deduct|pick (?:it|them) up)\b"
            rf"|\byour (?:[\w'-]+ ){{0,5}}?[\w-]+(?: (?:is|are|was|were|has been|have been)|'s been)"
            rf" (?:now |already |still |just )?{_DONE}\b"
            r"|\b(?:we agreed|as agreed|you(?:'re| are) (?:booked|confirmed|all set for)|appointment is)\b"
        ),
        ("reference", FactCategory.NUMERIC, 0.7): (
            r"\b(?:confirmation|reference|ticket|case|order|booking|reservation|tracking|receipt|invoice|claim"
            r"|transaction|request|registration|ref|appointment|policy|account|pnr"
            r"|rma)\b[\s\w#'’.-]{0,30}(?:is|:|#|no\.?|number|code)"
        ),
        ("told", FactCategory.GENERAL, 0.4): (
            r"(?<!if )(?<!when )(?<!whether )\b(?:your (?:[\w'-]+ ){1,6}?(?:is|are|was|were|will|has|have|had|must"
            r"|can't|doesn't|comes?|came|costs?|got|starts?|ends?|expires?|runs?|leaves?|arrives?|takes?|needs?)\b"
            r"|you(?:'re| are|'ve| have|'ll| will| got| scored| need| must| owe| paid| pay| leave"
            r"| arrive)\b(?! (?:like|love|find|want|see)\b))"
        ),
    }
)
"""What an assistant's clause may state: commitments and what became of the listener's things; the labels of ids; and
about the listener's affairs in general what has something definite in it."""


_MONTHS = rf"{_MONTH}|may|jan|feb|mar|apr|jun|jul|aug|sept|oct|nov|dec"
_NUMBERS = (
    "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen"
    "|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand|dozen|couple|pair|half|twice"
    "|double|single|grand"
)
_CAPITALISED = r"(?<=[a-z,] )(?!I\b|I['’])[A-ZÀ-Ý][a-zà-ÿ]{1,30}"

ANSWERS = {
    "requirement": AnswerForms(
        r"\b(?:have|has|need|needs) to\b|\bmust\b|\brequire",
        r"\b(?:have|has|need|needs|ought) to\b|\bmust\b|\brequire|\bneeds?\b",
    ),
    "reason": AnswerForms(
        r"\bwhy\b|\breason\b|how come",
        r"\b(?:because|since|due to|so that|so (?:i|we|he|she|they)|on account of|owing to|thanks to|that's why"
        r"|as (?:i|we|it|the|he|she|they))\b|,\s(?:the|my|our|it|he|she|they|i|we) \w",
    ),
    "occupation": AnswerForms(
        r"\b(?:job|occupation|profession|trade|career)\b|for (?:work|a living)|earn",
        r"\b(?:i|he|she|we|they)(?:'m| am|'s| is|'re| are|'ve| have)? (?:an? |\w{1,12}ing to be |been )"
        r"|\bas an? |\bby (?:day|trade)\b|for a living|working life|pays? my|\bwork(?:s|ed|ing)? (?:as|at|for|in)\b",
    ),
    "money": AnswerForms(
        r"how (?:much|expensive)|\b(?:price|costs?|fee|rate|rent|budget|salary|deposit|debt|sum|pay)\b",
        r"[$€£¥₩]\s?[0-9]|[0-9]\s?(?:k\b|€|£|\$|euros?\b|dollars?\b|pounds?\b|quid\b|bucks\b|francs\b|won\b|yen\b)"
        rf"|\b(?:{_NUMBERS})\s(?:[a-z]{{1,12}}\s)?(?:euros?|dollars?|pounds?|quid|bucks|francs|won|yen|grand|cents)\b"
        rf"|\b(?:tenner|fiver|grand|quid)\b|(?:[0-9]|\b(?:{_NUMBERS}))\s(?:a|an|per|each)\s\w"
        r"|\b[0-9]{1,3},[0-9]{3}\b",
    ),
    "count": AnswerForms(r"how many|number of", rf"[0-9]|\b(?:{_NUMBERS})\b"),
    "measure": AnswerForms(
        r"how (?:long|wide|tall|high|far|big|old|heavy|deep|large|often|fast|small)"
        r"|\b(?:size|length|width|height|weigh|weight|dimensions|distance|duration)\b",
        rf"[0-9]|\b(?:{_NUMBERS})\b",
    ),
    "time": AnswerForms(
        r"\bwhen\b|what (?:time|day|date|year|month)|which (?:day|date|month|year|evening|morning)|how soon|deadline"
        r"|\bdate\b|cut-?off|birthday|anniversary",
        rf"\b(?:{_MONTHS}|{_DAY}|noon|midnight|midday|dawn|dusk|sunset|sunrise|mornings?|evenings?|afternoons?|nights?"
        r"|tonight|tomorrow|weekends?|weekdays|spring|summer|autumn|fall|winter|christmas|easter|new year|end of"
        r"|o'clock|before|after|until|till|by the|next (?:week|month|year)|term|holidays)\b"
        r"|\b(?:half|quarter|ten|twenty|five) (?:past|to) "
        rf"|\b(?:half|at|after|before|by|until) (?:[0-9]|(?:{_NUMBERS})\b)"
        r"|\b[0-9]{1,2}(?::[0-9]{2}|\s?[ap]\.?m\b|(?:st|nd|rd|th)\b)",
    ),
    "contact": AnswerForms(
        r"e-?mail|phone|\breach(?:ed)?\b|contact|\bdial|\burl\b|website|\blink\b",
        r"@|[0-9]{3}[\s.-][0-9]{3}|\+[0-9]|https?:|www\.|\b[a-z0-9-]{1,40}\.[a-z]{2,12}/|[a-z]_[a-z]|[0-9]-[0-9]{3}",
    ),
    "code": AnswerForms(
        r"\b(?:number|code|id|reference|pin|password|serial|pnr)\b",
        r"\b(?=[\w-]{0,24}[0-9])(?:[A-Z]{1,6}-?[0-9]|[A-Z0-9]{2,12}-[A-Z0-9])|[0-9]{3}|[a-z]-[0-9]|#[0-9]",
    ),
    "place": AnswerForms(
        r"\bwhere\b|which (?:city|country|town|place|region|island|street|room|village)"
        r"|\b(?:address|location|venue|destination|hometown)\b",
        r"\b(?:in|at|near|to|from|on|outside|inside|into|over|under|behind|next to|beside|above|below|around)\s\w",
    ),
    "person": AnswerForms(
        r"\bwho(?:m|se)?\b|\bname\b|\bcalled\b",
        rf"{_CAPITALISED}|\b(?:Dr|Mr|Mrs|Ms|Prof)\b|\b(?:[Mm]y|[Oo]ur|[Hh]is|[Hh]er|[Tt]heir)\s[\w-]{{1,20}},"
        r"|^[A-Z][a-z]{1,20},|\b(?:named|called)\b",
    ),
    "name": AnswerForms(
        r"\b(?:brand|company|firm|employer|make|model|program|software|app|product|called|city|country|language|title"
        r"|which)\b",
        rf"{_CAPITALISED}|^[A-Z][a-z]{{1,20}} (?:is|has|was)\b|[A-Z]{{2}}",
    ),
    "condition": AnswerForms(
        r"(?:what|which) (?:condition|terms|case|circumstances)|what happens|\bif\b",
        r"\b(?:if|unless|provided|providing|as long as|so long as|once|when|whenever|only|should|in case|except"
        r"|as soon as|until)\b",
    ),
    "prohibition": AnswerForms(
        r"n['’]t\b|cannot|\bnot\b|forbid|prohibited|banned|avoid|off[- ]limits|no-go",
        r"\b(?:never|nobody|no one|not|no|without|avoid|stop|keep|leave|off|out of|cannot)\b|n['’]t\b",
    ),
    "preference": AnswerForms(
        r"\b(?:likes?|prefers?|favou?rite|dislikes?|hates?|enjoys?|rather|suits?)\b",
        r"\b(?:prefer|rather|loves?|hates?|likes?|over|favou?rite|enjoy|can't (?:stand|bear)|more|best|better|fan|never"
        r"|give me|live on|thing)\b",
    ),
    "decision": AnswerForms(
        r"\b(?:decided?|choose|chose|chosen|pick(?:ed)?|agreed|selected|settled|rejected)\b",
        r"\b(?:decided|settled|agreed|chose|chosen|went (?:for|with)|going (?:for|with)|gone for|go for|picked|picking"
        r"|voted|in the end|after all|ended up|let's|it is|won|giving|turning down|cancel|taking|i'll|we'll|we're)\b",
    ),
    "plan": AnswerForms(
        r"\b(?:will|plans?|wants?|intends?|hopes?|going to|dream|goal)\b",
        r"\b(?:will|plan|planning|going to|want|hoping|hope|idea is|next year|someday|one day|aim|intend)\b"
        r"|'(?:ll|d love|m \w{2,12}ing|re \w{2,12}ing)\b",
    ),
    "state": AnswerForms(
        r"\b(?:wrong|matter|state|status|problem|happened|working|issue)\b",
        r"\b(?:broken|stopped|failing|still|again|out|stuck|flat|never|leak|dead|died|torn|no longer|off|slipping"
        r"|drips?|drops?|since|has)\b",
    ),
}

_NAME = r"(?-i:(?P<value>[A-Z][\w'’&-]*(?: [A-Z][\w'’&-]*){0,2}))"
_MOVING = (
    r"(?:changed|moved|postponed|updated|switched|raised|lowered|increased|reduced|rescheduled|pushed|extended|renamed"
    r"|shifted|brought forward|cut|delayed)"
)

STATEMENTS = Statements(
    rewrites=tuple(
        (Pattern(pattern), text)
        for pattern, text in (
            (r"^(?:user|assistant)\s*:\s*", ""),
            (r"\b(?:(?:the|this) )?(?:user|customer|client)['’]s\b", "my"),
            (r"\b(?:(?:the|this) )?(?:user|customer|client)\b", "I"),
            (r"\bcan(?:['’]?t|not)\b", "can not"),
            (r"\bwon['’]t\b", "will not"),
            (r"n['’]t\b", " not"),
            (r"\bI['’]m\b", "I am"),
            (r"\b(we|you|they)['’]re\b", r"\1 are"),
            (r"\b(I|we|you|they)['’]ve\b", r"\1 have"),
            (r"\b(?:hates?|dislikes?|detests?|loathes?|(?:can|do|does) not stand)\b", "does not like"),
            (r"\b(?:loves?|enjoys?|adores?|(?:is|am|are) fond of)\b", "likes"),
            (r"\bany (?=more\b|longer\b)", "any"),
            (
                rf"^(?:I|we) (?:have |had |just )*({_MOVING}) ((?:my|our|the) .{{2,40}}?) (?:from .{{1,30}}? )?to ",
                r"\2 \1 to ",
            ),
        )
    ),
    breaks=Pattern(
        r"[,;:()]\s+|\s+[—–-]+\s+|\s+(?=(?:and|but|so|because|since|while|although|though|which|who)\s)", cased=True
    ),
    unsure=Pattern(
        r"\?|\b(?:if|would|might|may(?! \d)|could|maybe|perhaps|probably|consider\w*|think\w*|wish\w*|dreams?|unless"
        r"|wonder\w*|should|plan(?:s|ning|ned)?|wants?|wanted|hop(?:e|es|ing)|intend\w*|going to|needs? to|will"
        r"|appl(?:y|ied|ying)|looking|interview\w*|try|tries|trying|once(?! an?\b)|formerly|previous|previously"
        r"|former|ex|back then|originally|grew up|growing up|was(?! (?:just )?(?:changed|moved|postponed|updated"
        r"|resched|push|extend))|were|had|did(?! not)|ago|last|in (?:19|20)\d\d|also|too|as well|another|second"
        r"|additional|besides|either|both|sometimes|occasionally|temporar\w*|visit\w*|say|says|said|told|asked|today"
        r"|tomorrow|tonight|yesterday|except|this (?:week|month|year|weekend|time)|for (?:a|the|two"
        r"|three) (?:few )?(?:days?|weeks?|months?|weekend)|about \d|around \d|roughly|approximately|nearly|almost"
        r"|over \d|under \d|up to|at least|at most|more than|less than|half of|used to be)\b"
    ),
    vague=Pattern(r"(?:and |but |so )?(?:he|she|it|they|his|her|their|its|this|that|these|those|there|you|your)\b"),
    negated=Pattern(
        r"\b(?:not(?! only| just)|no longer|never|no(?! problem| one)|anymore|anylonger|without|nobody|hardly"
        r"|used to|avoids?|avoiding)\b"
    ),
    ended=Pattern(
        r"\b(?:quit(?:s|ting)?|(?:have |has )?stopped|stops|gave up(?: on)?|given up(?: on)?|giv(?:es|ing) up(?: on)?"
        r"|cancel(?:l?ed|l?ing)?|sold|got rid of|gotten rid of|resigned(?: from)?|left|dropped out of|deleted?"
        r"|uninstalled|unsubscribed(?: from)?|retired from|broke up with|split up with|threw away|threw out|done with"
        r"|finished with|swore off|died|passed away|gave away|called off|fell through|ended|expired|(?:is|are) over"
        r"|closed down|shut down|cut out|moved out of)\b"
    ),
    swapped=Pattern(
        r"\b(?:switched|changed|migrated|moved|converted)(?: over)? from (?P<old>.{2,40}?) to .+$"
        r"|\b(?:replaced|swapped|exchanged|traded)(?: in)? (?P<given>.{2,40}?) (?:for|with|by) .+$"
        r"|\binstead of (?P<dropped>.{2,40})$"
    ),
    changed=Pattern(rf"\b(?:now|nowadays|these days|from now on|instead|{_MOVING})\b"),
    added=Pattern(r"\b(?:new|current|latest)\b"),
    relations=tuple(
        Relation(attribute, Pattern(pattern), is_change)
        for attribute, pattern, is_change in (
            ("home", rf"\b(?:liv(?:e|es|ing)|resid(?:e|es|ing)|based) (?:now )?in {_NAME}", False),
            (
                "home",
                (
                    rf"\b(?:moved|relocated)(?: from [\w -]{{2,20}}?)? to {_NAME}(?! (?:team|department|project"
                    rf"|plan|account)\b)"
                ),
                True,
            ),
            ("employer", rf"\b(?:works?|working|employed) (?:now )?(?:at|for) {_NAME}", False),
            ("employer", rf"\b(?:joined|started (?:working )?at|got a job at|changed jobs to) {_NAME}", True),
            (
                "job",
                (
                    r"\bwork(?:s|ing)? as (?:an? |the )?(?P<value>[\w-]+(?: [\w-]+){0,2}?)(?= (?:at|for|in|with"
                    r"|from|on)\b|$)"
                ),
                False,
            ),
            ("age", r"\b(?:am|is|turned) (?:now )?(?P<value>\d{1,2})(?: years? old| years of age)?$", False),
            ("school", rf"\b(?:stud(?:y|ies|ying)|enrolled) at {_NAME}", False),
            ("major", r"\bmajor(?:s|ing)? in (?P<value>[a-z ]{3,30})$", False),
            ("commute", r"\b(?:commutes?|goes? to work|gets? to work) (?:by|on) (?P<value>\w+)$", False),
            (
                "preference",
                r"\bprefers? (?P<value>.{2,40}?) (?:over|to|rather than|instead of) (?P<other>.{2,40})$",
                False,
            ),
        )
    ),
    named=(
        Pattern(
            rf"^(?P<left>(?:(?:my|our|the) .{{2,50}}?|[A-Z][\w-]*['’]s .{{2,40}}?))(?:(?<=mail) address)? (?:is|are"
            rf"|(?P<changed>(?:has |have |was |got |is )?"
            rf"(?:been )?(?:now |just )?{_MOVING}(?: from .{{1,30}}?)? to)) (?:now )?(?P<value>.+)$"
        ),
    ),
    attributes=Pattern(
        r"(?:e-?mail|number|address|postcode|zip|birthday|birthdate|name|nickname|surname|username|password|passcode"
        r"|pin|wifi|nationality|job|occupation|salary|budget|rent|deadline|height|weight|blood|hometown|wedding"
        r"|anniversary|favou?rite|due|timezone|landlord|landlady|boss|employer|license|passport|iban|age|size)",
        cased=True,
    ),
    several=Pattern(
        r"(?:(?:sister|brother|sibling|friend|cousin|son|daughter|child|kid|aunt|uncle|niece|nephew|neighbou?r"
        r"|colleague|co-?worker|roommate|flatmate|teammate|classmate|client|customer|student|grandson|granddaughter"
        r"|twin|cat|dog|pet|puppy|kitten|bird|fish|car|bike|book|film|movie|song|order|ticket|booking|reservation"
        r"|invoice|case|parcel|package|meeting|appointment|lesson|class|course|session|call|shift|training|flight"
        r"|train|bus|trip|visit|interview|exam|test|delivery|task|project|account|card|shirt|dress|room|table|chair"
        r"|item|product|event|game|match|medication|pill|tablet|subscription|course|workshop|party|bag|box|plant"
        r"|house|apartment|door|key|file|page|chapter|version|ticket)(?:e?s)?|children|people|men|women|babies"
        r"|parties|classes|deliveries|puppies|nephews)",
        cased=True,
    ),
    indefinite=Pattern(
        r"\b(?:an?|one|some|every|each|any|this|that) (?!(?:week|day|month|year|night|hour)\b)|\b(?!(?:closed"
        r"|married|divorced|widowed|engaged|separated|retired|employed|fixed|repaired|approved|accepted"
        r"|rejected|declined|denied|based|located)\b)\w{3,}ed\b|\b(?:paid|spent|bought|got|took|cost(?= me)"
        r"|made|ran|slept|went|came)\b"
    ),
    light=word_set(
        "a an the i me my mine we us our ours am is are was be been being has have do does will shall of on in at to "
        "for by from with into as so and but very really quite still currently now nowadays these days already just "
        "finally officially usually normally always often actually mostly mainly generally ever again recently since "
        "then completely totally fully only own new current latest called named located situated scheduled set about "
        "user get gets got it its this that longer any all more every each per please anymore anylonger instead"
    ),
    engaging=word_set(
        "play go goes drink eat use take attend practis practic own drive rid work studi subscrib train keep "
        "wear member watch run do learn do belong"
    ),
    kinds=kinds_of_words(
        weekday="mon monday mondays|tue tuesday tuesdays|wed wednesday wednesdays|thu thursday thursdays|fri "
        "friday fridays|sat saturday saturdays|sun sunday sundays|weekday weekdays|weekend weekends",
        daypart="morning mornings|afternoon afternoons|evening evenings night nights",
        season="spring|summer|autumn|winter",
        often="daily|weekly|biweekly fortnightly|monthly|quarterly|yearly annually",
        marital="single unmarried|married|divorced|widowed|engaged|separated",
        employment="unemployed jobless|retired|employed",
        hours="full-time fulltime|part-time parttime",
        hand="left-handed|right-handed|ambidextrous",
        tenure="renter tenant|homeowner",
        payment="paid|unpaid overdue",
        filling="empty|full",
        opening="open|closed shut",
        condition="broken|fixed repaired",
        approval="approved accepted|rejected declined denied",
        colour="red|blue|green|yellow|white|black|grey gray|brown|pink|purple|orange",
    ),
    units=synonyms(
        "usd $ dollar dollars bucks|eur € euro euros|gbp £ pounds quid|krw ₩ won|jpy ¥ yen|% percent"
        "|kg kilo kilos kilograms|g grams|km kilometers kilometres|m meters metres|cm centimeters centimetres"
        "|mg milligrams|ml|l liters litres|mile miles|minute minutes min mins|hour hours hrs|day days|week weeks"
        "|month months|year years|gb|tb|sqm m²|lb lbs"
    ),
    months={
        word: int(number)
        for word, number in synonyms(
            "1 january jan|2 february feb|3 march mar|4 april apr|5 may|6 june jun|7 july jul|8 august aug"
            "|9 september sep sept|10 october oct|11 november nov|12 december dec"
        ).items()
        if word != number
    },
    chosen=Pattern(r"\bfavou?rite\b"),
    regions=synonyms(
        "uk britain england scotland wales|argentina|australia|austria|belgium|brazil|canada|china|denmark|egypt"
        "|finland|france|germany|greece|india|indonesia|ireland|israel|italy|japan|korea|malaysia|mexico|netherlands"
        "|norway|poland|portugal|russia|singapore|spain|sweden|switzerland|taiwan|thailand|turkey|usa|vietnam"
    )
    | dict.fromkeys(word_set("africa america asia europe"), ""),
)


ENGLISH = Language(
    name="English",
    script="latin",
    markers=MARKERS,
    stop_words=STOP_WORDS,
    common_words=COMMON_WORDS,
    base_forms=BASE_FORMS,
    stemmer="english",
    general_nouns=GENERAL_NOUNS,
    thesaurus="english_thesaurus",
    answers=ANSWERS,
    follow_up=Pattern(
        r"""(?x)\s*(?:(?:ok(?:ay)?|well|hmm+|thanks|right|great|yes|no)[,.!]*\s+)*
        (?:and|or|but|also|then|so|plus|what\ about|how\ about|what\ if|why\ not|why\ so|how\ so|which\ ones?
        |(?:what|who|where)\ else|any\ (?:others?|more)|anything\ else|another\ one|like\ what|such\ as|go\ on
        |tell\ me\ more|more\ (?:details?|about)|for\ (?:example|instance)|in\ (?:which|what)\ case
        |(?:the\ )?same\ (?:for|with|in))\b"""
    ),
    pointer=Pattern(
        r"""(?x)\b(?:it|its|they|them|their|theirs|those|these|this|he|him|his|she|her|hers
        |the\ (?:former|latter|others?)
        |(?:the\ )?(?:first|second|third|last|next|previous|other|same|cheaper|bigger|smaller|better|newer|older)\ ones?
        |(?:that|which|other|another)\ (?:one|case|part|option|time|day|place|person|point)
        |(?:about|of|for|with|from|to|in|on|like|after|before|than|by|is|was|does|did|do|can|could|will|would|should|has
          |why|how)\ that(?!\ (?:i|you|we|he|she|they|it|is|are|was|were|has|have|can|will)\b)
        |(?:from|in|over|to|get|go|going|lives?|lived|stay|up|down|out)\ there)\b
        |\b(?:that|there)\s*[?.!]*\s*$"""
    ),
    personal=word_set("he him his she her hers they them their theirs its"),
    expletive=Pattern(
        r"\b(?:(?:is|was|isn['’]t|would|will) (?:be )?it (?:be )?|it (?:is|was|would be|will be) )(?:true|possible"
        r"|impossible|legal|illegal|necessary|safe|ok|okay|worth|better|best|hard|easy|common|normal|important)\b"
        r"|\b(?:does|did|will|would) it (?:(?:take|cost) to|rain|snow)\b|\bit (?:takes?|costs?) (?:\w+ )?to\b"
        r"|\bwhat (?:time|day|date|year) is it\b"
    ),
    defining=Pattern(r"\b(?:what(?:['’]s| is| are)|who(?:['’]s| is| are| was)|define|meaning of|explain)\b"),
    definite=Pattern(r"\bthe\s+\w+"),
    asking_words=word_set(
        "want need know think show explain find help look question answer mean thing things wonder wondering see "
        "recommend suggest compare describe list details detail example curious try sure okay ok also still"
    ),
    labels=word_set(
        "user users customer client person people speaker says said states stated mentions mentioned reports "
        "reported asks asked wants wanted needs prefers preference prefer likes like dislikes hates loves enjoys "
        "allergic allergy allergies intolerant intolerance lives living works working employed employer job "
        "occupation profession owns owned named called name names number numbers id code address email phone contact "
        "date time day deadline due budget price cost amount total size colour color agreed agreement decided "
        "decision chose chosen choice selected plans planning plan intends going must not never cannot should avoid "
        "required requires requirement condition conditions only status currently current located location based "
        "scheduled schedule appointment confirmed reservation reserved booked booking order ordered family "
        "relationship married age years old reason because resides residing"
    ),
    numbers=synonyms(
        "1 one|2 two twice pair couple|3 three|4 four|5 five|6 six|7 seven|8 eight|9 nine|10 ten|11 eleven|"
        "12 twelve dozen|13 thirteen|14 fourteen|15 fifteen|16 sixteen|17 seventeen|18 eighteen|19 nineteen|"
        "20 twenty|30 thirty|40 forty|50 fifty|60 sixty|70 seventy|80 eighty|90 ninety"
    ),
    rules_out=Pattern(r"\b(?:allerg|intoleran|forbid|prohibit|banned|exclud|except|without|free of)"),
    preference=Pattern(
        r"\b(?:i|we)(?:'d| would)?\s(?:(?:really|always|usually|also|still|much|now|absolutely|generally|actually"
        r"|do not|don't|no longer|never|can't|cannot)\s){0,3}(?:like|love|enjoy|prefer|hate|dislike|avoid|adore|stand"
        r"|can't stand)\b(?!\sto (?:know|ask|book|order|get|see|buy|have a|bother you|say (?:it|this|that|so)\b|admit"
        r"|interrupt))|\bmy favou?rite\b|\bi(?:'m| am) (?:not )?(?:a (?:big |huge )?fan of|fond of|keen on"
        r"|allergic to|(?:a )?(?:vegan|vegetarian)\b)|\b(?:please )?(?:always|never) (?:answer|reply|write|use|call"
        r"|speak|send|give)\b"
    ),
    attitudes=word_set(
        "like likes love loves enjoy prefer hate dislike avoid adore stand fond keen fan favourite favorite really "
        "always usually also still much now absolutely generally actually never would must let's go went do say said "
        "hear heard mention sound sounds good well"
    ),
    subordinate=Pattern(
        r"^(?:if|when|whenever|once|unless|provided|as long as|in case|after|before|even if|should (?:the"
        r"|my|our|he|she|it|they|we|any\w*)|whatever happens|whatever you do|under no circumstances"
        r"|on no account)\b"
    ),
    continues=Pattern(
        r"^(?:which|who|whose|because|since|unless|only|provided|until|but not|not|nor|or|and (?:not|no"
        r"|only|nothing|the|a|then)|so no|no|never|for|in|on|at|with|without|from|to|by|before|after|even"
        r"|including|except|mostly|especially|always|like|as)\b"
    ),
    phrasings=synonyms(
        "like love enjoy adore prefer fond|live living reside residing based|work working employed|allergy allergic"
    ),
    speaker=word_set("user i i'm i've"),
    directed=word_set("to from than over under before after until instead against without"),
    oneself=r"(?:I|I['’](?:m|ve|d|ll)|My|We|Our)\s[a-z]",
    forget=Pattern(
        rf"^{_LEADS}(?:forget\b(?!\s(?:to|it|not)\b)|unlearn\b"
        r"|(?:don['’]t|do not|stop|never) (?:remember(?:ing)?|stor(?:e|ing)|sav(?:e|ing)|memori[sz](?:e|ing)"
        r"|keep(?:ing)? in mind)\b|(?:delete|erase|remove|drop|discard|wipe|clear"
        r"|scrap)\b[^.!?\n]{0,40}?\b(?:memor(?:y|ies)|your (?:notes|records)|what (?:i|we) (?:said|told|mentioned"
        r"|wrote)|that (?:i|i['’]m|i['’]ve|my|we))\b)"
    ),
    said_instead=Pattern(
        r"(?s).{0,1200}?(?:[,;.—–-]\s(?:(?:but|and|because|since|as|now|instead|actually|in fact|these "
        r"days)[\s,]{1,2}){0,2}"
        r"(?=(?:i|i['’]m|i['’]ve|we|it['’]s)\s)|\s(?:because|since)\s(?=(?:i|i['’]m|i['’]ve|we)\s))"
    ),
    text_task=Pattern(
        rf"(?m)(?:^|(?<=[.!?,]\s))[ \t]*(?:(?:an? )?(?:example|sample)\b|{_LEADS}"
        r"(?:translate|proofread|rewrite|rephrase|paraphrase|summari[sz]e|polish|shorten|transcribe|spell-?check"
        r"|(?:correct|fix|check|improve|edit|review)\s(?:it|this|that)\b(?!\sout\b)"
        r"|(?:correct|fix|check|improve|edit|review)\s[^:\n\"“.]{0,40}?\b(?:grammar|spelling|english|text|sentences?"
        r"|paragraph|translation|wording|essay|letter|e-?mail|draft)))\b"
        r"(?:[^:\n\"“.]{0,60}(?::\s{0,3}|(?=[\"“]))|[^:\n]{0,40}\b(?:following|below)\b[^:\n]{0,40}\n)"
    ),
    signals=SIGNALS,
    assistant=ASSISTANT,
    names=Pattern(
        r"(?<![.!?…] )(?<=[\w,;:'’\"“(-] )(?!I\b|I['’]|Ok\b|OK\b|English\b|Monday|Tuesday|Wednesday|Thursday|Friday"
        r"|Saturday|Sunday)(?:(?:Dr|Mr|Mrs|Ms|Prof|St)\.\s)?[A-ZÀ-ÖØ-ÞĀ-Ž][\w’'&-]{1,30}(?:\s(?:(?:of|de|la|van|von"
        r"|der|the|and|&)\s)?[A-ZÀ-ÖØ-Þ0-9][\w’'&.-]{0,30}){0,4}",
        cased=True,
    ),
    first_name=Pattern(
        r"^(?!(?:It|This|That|There|These|Those|They|He|She|We|You|I|What|Who|How|Where|Why|When|Which|Everything"
        r"|Everyone|Everybody|People|Nothing|Nobody|Someone|Something|All|My|Our|Your|His|Her|Their|The|A|An|Some"
        r"|Most|Many)\b)[A-ZÀ-ÖØ-ÞĀ-Ž][\w'-]{1,30}(?:\s[A-Z][\w'-]{1,30}){0,2}(?='s\s|\s(?:is|are|was|were|has|had"
        r"|will|wants|needs|left|can|can't|likes|loves|hates|works|lives|says|said|starts|takes|does|doesn't|speaks"
        r"|plays|moved|told|just)\b|,\s(?:my|our|his|her|their|the|a|an|who)\s)",
        cased=True,
    ),
    topic=Pattern(
        r"\b(?:my|our|the|his|her|their|your)\s(?:(?-i:new)\s)?((?:[\w'-]{1,20}\s){0,3}?[\w'-]{1,20})"
        r"(?:(?:\snumber|(?<=mail)\saddress)?\s(?:is|are|was|were|has|will|(?:just\s)?changed)\b|'s\s)"
    ),
    listener=Pattern(r"\b(?:you|your|yours|yourself|you're|you've|you'll|you'd)\b"),
    lead_ins=Pattern(
        r"^(?:(?:no|nope|yes|yeah|yep|look|listen|see|right|fine|great|now|sure|well|sorry|thanks|thank you"
        r"|good (?:morning|evening|afternoon)|perfect|cool|nice|alright|look here)[,.;:!—–-]+\s+|(?:oh|wow|aw+|hi|hey"
        r"|hello|so|and|but|also|plus|anyways?|anyhow|okay|ok|um+|uh+|ah|hmm+|actually|honestly|basically"
        r"|unfortunately|apparently|by the way|btw|fyi|one (?:more|last) thing|another thing|before i forget"
        r"|just so you know|for the record|for what it's worth|(?:as|like) i said|to be (?:clear|honest)|in fact"
        r"|mind you|also note|for (?:context|reference)|in case it helps)(?=[\s,.:;!—–-])[\s,.:;!—–-]{1,4}"
        r"|(?:i (?:think|guess|believe|suppose|mean|should mention|should add|forgot to (?:say|mention)"
        r"|wanted to (?:say|mention)|(?:have to|must) (?:say|admit|confess))|(?:just |please )?(?:note|remember"
        r"|keep in mind|bear in mind|be aware)|the (?:thing|point) is|(?:it )?turns out|what matters is)(?: that"
        r"|,)?\s(?=(?:i|we|my|our|the|it|he|she|they|you)\b)|(?:can|could|would|will) you (?:please |also |just "
        r"|maybe |possibly )?(?=\w))"
    ),
    question=Pattern(
        r"(?s)^(?:what|who|whom|whose|which|why|how|when|where|is|are|am|was|were|do|does|did|can|could|would|will"
        r"|should|shall|may|might|have|has|had|any)\b.{0,400}\?\W{0,3}$|\?\W{0,3}$"
    ),
    request=Pattern(
        r"^(?!(?:how|what|which|why|where|who|when)\b)(?:[\w ,]{0,20}\s)?"
        r"(?:(?:can|could|would|will) (?:you|we|u)|(?:can|could) i)\b"
    ),
    task=Pattern(
        r"^(?:[\w' ]{0,30},\s)?(?:[\w']{1,12}\s){0,4}?(?:can|could|would|will) (?:you|i|we|u)\s(?:(?:please|also|just"
        r"|maybe|possibly|perhaps|at least|even|try to|go ahead and)\s){0,3}(?:recommend|suggest|tell|give|show"
        r"|explain|name|list|help|provide|describe|compare|summari[sz]e|write|rewrite|create|generate|translate"
        r"|elaborate|clarify|teach|search|look|analy[sz]e|check|think|share|advise|discuss|talk|go over|walk|guide"
        r"|come up|make|draft|add|edit|revise|include|format|convert|do|be|see|get|have|know|use|expect|find out"
        r"|say)\b"
    ),
    asking=Pattern(
        r"(?:(?:and|but|so|or|also|well|then|now|like|please|hey|ok|okay)\s){0,2}"
        rf"(?:(?:is|are|am|was|were|do|does|did|can|could|would|will|should|shall|may|might|must|have|has|had"
        rf"|isn't|aren't|wasn't|weren't|don't|doesn't|didn't|can't|couldn't|wouldn't|won't|shouldn't)\s{_SUBJECT}\b"
        rf"|(?:is|are|was|were|do|does|did|can|could|would|will|should|has|have)\s[A-Z]\w|what|whose|why|whom"
        rf"|(?:how|where)(?!\s(?:i|we|he|she|they|you|it)\b)|when\s(?:is|are|was|were|do|does|did|can|could|will"
        rf"|would|should)"
        r"|(?:who|which)(?!\s(?:i|we|he|she|they|has|have|had|is|are|was|were)\b)|any\b)"
    ),
    seeking=Pattern(
        rf"^{_LEADING}(?:"
        # the order of a question, or the word that asks
        r"(?:is|are|am|was|were|do|does|did|can|could|would|will|should|shall|may|might|have|has|had)\s(?!not\b)[\w']"
        rf"|(?:is|are|was|were|do|does|did|ca|could|would|wo|should|have|has)n['’]?t\s{_SUBJECT}\b"
        r"|(?:(?:in|at|on|for|from|to|with|by|of|about|since|until)\s)?(?:what|who|whom|whose|which|why|how|when"
        r"|where)(?:['’]?(?:s|re|d|ll))?\b|any(?:thing|one|body)?\s\w"
        # a request
        r"|(?:tell|give|show|find|list|remind|repeat|explain|summari[sz]e|recap|look|check|search|compare|describe"
        r"|name|continue|go\son|remember|recall|suggest|recommend|help|let\sme\sknow|quote|read|write|draft|rewrite"
        r"|prepare|plan|use|send|book|order|do|make|add|put|calculate|count|translate|confirm|lemme|gimme|say|print"
        r"|display|get|bring|pull|fetch|open|provide|state|create|generate|schedule|cancel|change|update|delete"
        r"|remove|review|verify|estimate|refresh)\s(?!(?:you|it|that)\s(?:know|is)\b)\w|(?:recap|continue|go\son"
        r"|help)\W*$)|\b(?:please|pls|plz|remind\sme|tell\sme|let\sme\sknow|i\swonder|wondering|(?:not\ssure|no\sidea"
        r"|curious)\s(?:what|who|which|when|where|how|if)|what\s(?:was|is|did|were|are)|as\s(?:usual|before"
        r"|last\stime)|the\susual|same\sas|last\stime|earlier|(?:you|u)\s(?:remember|recall|said|told|mentioned"
        r"|recommended|suggested|know\s(?:my|the|our|what|who|which|when|where))|i\s(?:told\syou|mentioned)"
        r"|i\sneed\s(?:the|my|our))\b|(?<!no matter )\b(?:what|who|whom|when|where|how\smuch|how\smany)\W*$"
        r"|\b(?:forg[eo]t\w{0,4}|lost|(?:like|want|need)(?:ed)?\sto\sknow|(?:(?:do|did|ca|could)n['’]?t|(?:do|did|can"
        r"|could)\s?not)\s(?:remember|recall|find|know))\b"
    ),
    tag=Pattern(
        r",\s(?:(?:is|are|am|was|were|do|does|did|has|have|had|will|would|can|could|should)(?:n['’]t)?\s(?:i|you|he"
        r"|she|it|we|they|there)|right|correct|yes|no|ok|okay|yeah|huh|eh)\s?\?\W{0,3}$"
    ),
    given=Pattern(r"(?<=,\s)(?:since|because|as|given that|seeing as|considering)\s(?:i|we|my|our|he|she|they)\b"),
    reported=Pattern(
        r"(?:\b(?:and|but|so)\s)?(?:\b(?:i|we|he|she|they|you|people|everyone|(?:my|our|his|her|their|the) \w{1,20}"
        r"|[A-Z]\w{1,20})(?:['’](?:m|re|s|ve|d|ll))?\s)?(?:\b(?:was|am|were|is|are|been|have|has|had|did|do|does|just"
        r"|also|still|really|always|keeps?|kept|even|would|will|like to|going to)\s){0,4}\b(?:ask(?:s|ed|ing)?"
        r"|wonder(?:s|ed|ing)?|curious|unsure|undecided|unclear|debating|(?:not|never|\w{2,6}n['’]t)\s(?:really "
        r"|quite |exactly |entirely |completely ){0,2}(?:sure|certain|clear|know|decided|remember|recall|tell)"
        r"|no idea|want(?:s|ed)? to know|love to know|like to know|need to know|question is|question was)(?:\s(?:me"
        r"|him|her|us|them|you|about|of|on|to|again|(?:my|our|his|her|their|the) \w{1,20})){0,2},?\s(?:if|whether"
        r"|what|when|where|who|whom|whose|which|why|how)\b"
    ),
    supposition=Pattern(
        r"^(?:(?:and|but|so|or|ok|okay|now|also|well)[\s,]{1,2}){0,2}(?:(?:but )?what if|imagine|suppos(?:e|ing)"
        r"|hypothetically|let's (?:say|imagine|assume|pretend|suppose)|assum(?:e|ing)|pretend|say (?:i|we|he|she|they"
        r"|there)\b)|\b(?:i|we|he|she|they) (?:really |just |only |so |do )?wish(?:es|ed)? (?:i|we|he|she|they|it"
        r"|there|that|my|our|the)\b|\b(?:if|as if|as though) (?:i|we|you|he|she|it|they|there|(?:the|my|our|his"
        r"|her) \w{1,20}) (?:only |ever |just )?(?:were|had|could|weren't|hadn't|didn't|wasn't)\b.{1,120}\b(?:would"
        r"|wouldn't|could|might)\b|^(?:(?:and|but|so|or|also|well)[\s,]{1,2}){0,2}if (?:i|we) .{1,120}\b(?:i"
        r"|we)(?:['’]d| would| could| might)\b(?! (?:like|love|prefer|appreciate|rather|need|want|be (?:happy|glad"
        r"|grateful)))|\b(?:would|wouldn't|could|might)(?:n't)? .{1,120}\bif (?:i|we|you|he|she|it|they"
        r"|there) (?:only |ever |just )?(?:were|had|could|weren't|hadn't|didn't)\b"
    ),
    condition=Pattern(
        r"^(?:(?:and|but|so|or|also|ok|okay|now|well|then|hi|hey|hello)[\s,]{1,2}){0,2}"
        r"(?:if|unless|in case|assuming|provided|supposing|even if|(?:should|were) (?:i|we)"
        r"|when(?:ever)? (?:i|we)(?!\s(?:was|were|had|did|got|went|came|left|bought|made|took|\w{2,12}ed)\b))\b"
    ),
    chit_chat=Pattern(
        r"^(?:please )?(?:list|explain|recommend|create|tell me|provide|describe|summari[sz]e|generate|suggest"
        r"|show me|help me|teach me|compare|learn about|elaborate|rewrite|translate|write (?:a|an|me|the))\b"
        r"|\b(?:give me|looking for|need|want|get) (?:\w+ ){0,3}(?:information|info|ideas?|tips|examples?|advice"
        r"|suggestions)\b|\b(?:thank(?:s| you| u)|thx|appreciate|sorry (?:for|about|to|if)|apolog\w{2,6}|hope (?:you"
        r"|your|this|that|it|we|all)|no (?:rush|worries|problem|need)|let me know|get back to (?:me|you)|(?:makes?"
        r"|made|making) (?:any |a lot of |perfect |more )?sense|rambl\w{1,4}|bear with me|good (?:morning|evening"
        r"|night|luck|point|idea|question)|have a (?:good|great|nice|lovely)|take care|talk (?:to you )?(?:soon"
        r"|later)|see you|nice to (?:hear|meet)|glad (?:to|you|that|i)|happy to (?:hear|help)|(?:you|you've|you're"
        r"|you are) (?:probably|been|so|really|very|right|welcome|amazing|great|the best)|sounds? (?:really |very "
        r"|so |like |pretty ){0,2}(?:helpful|interesting|perfect|good|great|like|amazing|awesome|fun|cool|wonderful)"
        r"|(?:that|this|it)(?:'s| is| was| sounds?) (?:really |so |such |very |pretty |quite |a |an ){0,3}(?:great"
        r"|good|nice|cool|awesome|amazing|funny|interesting|wonderful|fantastic|lovely|helpful|awful|fine|true|right"
        r"|fair)|i (?:totally |completely |really |do |did )?(?:wonder|understand|agree|see what|know what|hear you"
        r"|get it|can imagine|can't wait|keep telling|was wondering|was just|laughed)|don't (?:know|worry|mind|get me"
        r"|mention it|bother(?=\W*$))|never ?mind|(?:only|just) kidding|(?:better late than|never say) never"
        r"|not (?:sure|certain|an expert)|no idea|to be (?:perfectly |completely |totally )?honest|i (?:might|may"
        r"|could|should|will|'ll) (?:well |probably |perhaps |just |also )?(?:think|come back|have another|check|look"
        r"|try|give it|definitely|keep that)|i'll (?:definitely|try|check|look|think|keep|give|have|be sure"
        r"|make sure)|in (?:your|my) (?:opinion|view)|what do you think|(?:i'm|i am) (?:so |really |very "
        r"|just )?(?:excited|happy|glad|thrilled|curious|interested|wondering|looking forward|thinking|grateful|proud"
        r"|rambling|trying|hoping to (?:hear|learn|find))|looking forward|sleep on it|slipped my mind"
        r"|out of curiosity|long (?:message|story))\b"
    ),
    joiner=Pattern(
        r"\s(?=(?:and|but|so|because|since|although|though|while|which|who|where|until|unless|if|when"
        r"|or)\s)",
        cased=True,
    ),
    statements=STATEMENTS,
)
