"""English: its words, how its sentences ask, suppose and join, and how people state facts."""

from arc_common.text.languages.language import Language, Pattern, Relation, synonyms, word_set

STOP_WORDS = word_set(
    "a about above after again all also am an and any anyone anything are as at be because been before being below "
    "between both but by can cannot could did do does doing done down during each ever every few for from further get "
    "give given go got had has have having he hello her here hers herself hi him himself his how i if in into is it "
    "its itself just kindly let like many may me might more most much must my myself no nor not now of off on once "
    "only or other our ours ourselves out over own please remember remind same say says shall she should so some such "
    "tell than thank thanks that the their theirs them themselves then there these they this those through to told too "
    "under until up upon us very was we were what whatever when where whether which while who whom whose why will with "
    "would yes you your yours yourself don't doesn't didn't isn't aren't wasn't weren't can't couldn't won't wouldn't "
    "shouldn't mustn't haven't hasn't hadn't i'm i've i'll i'd we're we've we'll you're you've you'll it's he's she's "
    "they're they've that's there's what's who's where's when's how's let's"
)
GENERAL_NOUNS = word_set(
    "people person man men woman women child children boy boys girl girls creature creatures thing things object "
    "objects stuff business affair affairs matter matters move moves place places question questions idea ideas"
)
_IRREGULAR = (
    "arise arose arisen|awake awoke awoken|bear bore borne|beat beaten|become became|begin began begun|bend bent|bet "
    "bets|bind bound|bite bit bitten|bleed bled|blow blew blown|break broke broken|breed bred|bring brought|build "
    "built|burn burnt|buy bought|catch caught|choose chose chosen|come came|creep crept|deal dealt|dig dug|draw drew "
    "drawn|dream dreamt|drink drank drunk|drive drove driven|eat ate eaten|fall fell fallen|feed fed|feel felt|fight "
    "fought|find found|flee fled|fly flew flown|forbid forbade forbidden|forget forgot forgotten|forgive forgave "
    "forgiven|freeze froze frozen|grow grew grown|hang hung|hear heard|hide hid hidden|hold held|keep kept|kneel "
    "knelt|know knew known|lay laid|lead led|lean leant|learn learnt|leave left|lend lent|lose lost|make made|mean "
    "meant|meet met|pay paid|prove proven|ride rode ridden|ring rang rung|rise rose risen|run ran|see saw seen|seek "
    "sought|sell sold|send sent|sew sewn|shake shook shaken|shine shone|shoot shot|show shown|shrink shrank "
    "shrunk|sing sang sung|sink sank sunk|sit sat|sleep slept|slide slid|smell smelt|speak spoke spoken|speed "
    "sped|spell spelt|spend spent|spill spilt|spin spun|spoil spoilt|spring sprang sprung|stand stood|steal stole "
    "stolen|stick stuck|sting stung|strike struck|swear swore sworn|sweep swept|swell swollen|swim swam swum|swing "
    "swung|take took taken|teach taught|tear tore torn|think thought|throw threw thrown|understand understood|wake "
    "woke woken|wear wore worn|weave wove woven|weep wept|win won|withdraw withdrew withdrawn|write wrote "
    "written|child children|man men|woman women|foot feet|tooth teeth|goose geese|mouse mice|person people|wife "
    "wives|knife knives|shelf shelves|half halves|wolf wolves|loaf loaves|thief thieves|scarf scarves|good better "
    "best|bad worse worst"
)
BASE_FORMS = {form: base for group in _IRREGULAR.split("|") for base, *forms in (group.split(),) for form in forms}
MARKERS = word_set(
    "the i is are my you he she we they it its of and to for with this that these those have has had not do does did "
    "don't i'm i've i'll it's isn't what how when where who why which would can could should from at by be been your "
    "our their his me us if or but because about there than then some any as"
)
COMMON_WORDS = STOP_WORDS | word_set(
    "ok okay oh ah hmm wow yeah yep yup nope cool perfect exactly correct noted bye lovely said ago actually already "
    "always another anyone anyway appreciate around ask assist assistance available away back bad better big bit book "
    "call change come day days different early easy else everyone everything feel find fine first free friend full "
    "good great guess happy help hi hope idea important keep know last late later least left less life little live "
    "long look lot love main make mean maybe month months morning near need never new next nice night number often "
    "old one only open order people person plan possible pretty put question ready really right room said second see "
    "seem set small someone something sometimes soon sound sounds still stop sure take talk thing things think time "
    "today tomorrow tonight options stuff exciting research experience experiences progress something interests "
    "balance try two use used usually want way week weeks well wish work world year years yes yesterday yet"
)
_I = r"\b(?:i|we)(?:'ve|'m|'re|'d|'ll)?\b"
_NAME = r"(?-i:(?P<value>[A-Z][\w'&-]*(?: [A-Z][\w'&-]*){0,2}))"
_ADVERBS = r"(?:\w+ly|also|just|always|often|still|already|now|both|never|even|don't|do not|no longer|do)"
_MENTAL = (
    r"(?:think|guess|know|mean|see|hear|agree|understand|wonder|believe|feel|suppose|hope|wish|want|need|bet|imagine"
    r"|remember|realize|care|mind|love|like|enjoy|try|get|got|gotta|can|could|will|would|should|might|may|must|shall"
    r"|was|were|did|had|went|gave|told|said|confirm|wanna|gonna|find|look|say|take|keep|make|worry|and|or|too|all|to"
    r"|in|for|with|of|so|that|who|if|as|is|rec+om+end|suggest|doubt)"
)
_PASTS = "|".join(form for form in BASE_FORMS if form not in BASE_FORMS.values())
_MOVED = (
    r"(?:changed|moved|postponed|updated|switched|raised|lowered|rescheduled|pushed|extended|renamed|shifted|brought"
    r" forward|delayed)"
)
_SINGLE = (
    r"e-?mail|(?:(?:phone|mobile|passport|account|room|member\w*|badge|customer|bank|house|flight) )?(?<!ket"
    r" )(?<!ing )(?<!oice )(?<!case )number|address|postcode|birthday|(?<!'s )name|password|passcode|pin|wifi"
    r"|nationality|job|salary|budget|rent|deadline|height|weight|hometown|wedding|anniversary|favou?rite \w+|timezone"
    r"|size|meeting|appointment|flight|train|interview|check-?(?:in|out)|departure|arrival|party|court|delivery"
)
_LEADS = (
    r"(?:(?:please|kindly|now|just|also|then|so|and|actually|(?:can|could|would|will) you|help me)[\s,.!]{1,3}){0,4}"
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
    lead_ins=Pattern(
        r"^(?:(?:no|nope|yes|yeah|yep|yup|look|right|fine|great|now|sure|sorry|thanks|thank you|perfect|cool|nice"
        r"|alright|awesome|good (?:morning|evening|afternoon)|absolutely|definitely|(?:thanks|hey|hi|wow|yeah|sure|oh"
        r"|woah|whoa),? [A-Z]\w+)[,.;:!—–-]+\s+|(?:oh|hi|hey|hello|wow|aw+|so|and|but|also|plus|anyways?|well|okay|ok"
        r"|um+|ah|hmm+|actually|honestly|unfortunately|finally|however|of course|for example|on another note|speaking"
        r" of[^,]{1,30}|by the way|btw|fyi|like i mentioned earlier|before i forget|one more thing|in"
        r" fact)(?=[\s,.:;!—–-])[\s,.:;!—–-]{1,4}|i (?:think|guess|mean|should mention|forgot to (?:say|mention)"
        r"|(?:just )?wanted to (?:say|mention))(?: that|,)?\s(?=(?:i|we|my|our|the)\b))"
    ),
    seeking=Pattern(
        r"^(?:(?:and|but|so|or|also|well|then|now|ok|okay|hey|hi|yes|no|sure|thanks|actually|please|pls|kindly|just|btw"
        r"|sorry)[\s,]{1,2}){0,3}(?:(?:is|are|am|was|were|do|does|did|can|could|would|will|should|shall|may|might|have"
        r"|has|had)\s(?!not\b)[\w']|(?:is|are|was|were|do|does|did|ca|could|would|wo|should|have|has)n'?t\s(?:i|you|we"
        r"|he|she|it|they|there|th[ae]t?|my|our)\b|(?:(?:in|at|on|for|from|to|with|by|of|about|since|until)\s)?(?:what"
        r"|who|whom|whose|which|why|how|when(?! (?:i|we|my|the|he|she|they|it)\b)|where)(?:'?(?:s|re|d|ll))?\b"
        r"|any(?:thing|one|body)?\s\w|(?:tell|give|show|find|list|remind|repeat|explain|summari[sz]e|check|search"
        r"|compare|describe|name|continue|go on|remember|recall|suggest|recommend|help|let (?:me know|us know|me see)"
        r"|quote|read|write|draft|rewrite|prepare|use|send|book|order|do(?!n't| not)|make|add|put|calculate|count"
        r"|translate|confirm|say|print|get|bring|open|provide|create|generate|schedule|cancel|change|update|delete"
        r"|remove|review|verify|refresh|play|turn|set|reserve|buy|pay|transfer|call|move|keep|take|try|imagine|consider"
        r"|look|act|include|respond|answer|rephrase|elaborate|analy[sz]e|expand|edit|discuss|design)\b(?! (?:is|are|was"
        r"|makes|has)\b)|(?:recap|help)\W*$)|\b(?:remind me|tell me|let me know|(?:i wonder|wondering|curious|not sure"
        r"|no idea|don't know|do you know|know|sure|see|asking|asked) (?:what|who|which|when|where|how|if|whether|why)"
        r"|what (?:was|is|did|were|are)|please\W*$|same as|last time|(?:you|u) (?:remember|recall|said|told|mentioned"
        r"|recommended|suggested)|i told you)\b|(?<!no matter )\b(?-i:what|who|when|where|how (?:much|many))\W*$"
        r"|\b(?:forgot|(?:ca|could|do|did)(?:n'?t| ?n?ot) (?:remember|recall|find))\b"
    ),
    chit_chat=Pattern(
        r"\b(?:thank(?:s| you)|thx|appreciat\w+|sorry|apolog\w+|no (?:rush|worries|problem|need|idea)|get back to|good"
        r" (?:luck|point|question|news|for|with)|take care|welcome|sounds?|agree|hear\w*|can't wait|(?:don't|never"
        r" ?)(?: worry| ?mind| get me| mention| bother| need| care| say)|to be honest|let's (?!go with|meet|take)"
        r"|excited|happy|glad|thrilled|curious|interested|sure|grateful|proud|looking forward|(?:that|this|it)(?:'s| is"
        r"| was) (?:all|it|[a-z]+\W*$)|got (?:it|this)|cheers|congrat\w*|keep (?:it|up|going|in|on)|i'll (?!go with"
        r"|take the|be |have |need )|all set|works for me|(?:is|are|was|and|or|but|the|an?|to|of)\W*$|intrigued"
        r"|works?\W*$|hang in|feel\w*|felt|amazing|awesome|fun|great|inspir\w+|important|special|beautiful|wonderful"
        r"|nice|cool|lovely|incredible|lucky|joy|bless\w*|powerful|support\w*|meaning\w*|(?:love|like) (?-i:it|this"
        r"|that|how|your|these|those|the|seeing|them|when|all)\b|passion\w*|memories|remind\w*|know|knew|believe"
        r"|understand|means?|see|think\w*|thought|got to|moments?|should|consider\w*|hop(?:e|es|ing)|worried|concerned"
        r"|trying|motivat\w*|impressed|realiz\w+|really|blast|reward\w*|imagine|ended up|gave me|together|we (?:all|can"
        r"|could)|life's|dreams?|positive|remember\w*|wonder\w*|notic\w+|definitely|(?:i|we) have to|(?:is|are|'s"
        r"|looks?|was|so) (?:so|both|pretty|much))\b"
    ),
    supposition=Pattern(
        r"^(?:(?:and|but|so)\s)?(?:what if|imagine|suppos(?:e|ing)|hypothetically|let's (?:say|imagine|assume)"
        r"|assum(?:e|ing)|pretend|say (?:i|we)\b|wish\b)|\b(?:wish|maybe|perhaps|might|would(?!n't (?:eat|accept)|"
        r" (?:like|love|prefer|rather)\b)|i'd(?! (?:like|love|prefer|rather)\b)|could(?:n't)? (?:be|have)|i could"
        r"|probably)\b"
    ),
    condition=Pattern(
        r"^(?:(?:and|but|so)\s)?(?:if|unless|in case|assuming|provided|even if|when(?:ever)?|since|as|because|while"
        r"|after|before|given)\b"
    ),
    joining=Pattern(
        r",? (?:and|but|so|because|since|as|which|though|although|plus)(?= (?:i|i'\w+|we|it|it's|that|this|they|he|she"
        r"|you|my|our|there|was|is)\b)|, so(?= )|[;!] | [–—-]+ "
    ),
    oneself=Pattern(r"\b(?:i|i'm|i've|i'd|i'll|me|my|we|we're|we've|we'll|our|let's)\b"),
    listener=Pattern(r"\b(?:you|your|yours|yourself|you're|you've|you'll|you'd|ya)\b"),
    lasting=Pattern(
        rf"^(?:[\w' ]{{3,20}}, )?(?:i|we(?= (?:live|work|have|run|rent|host|do)\b)) (?:{_ADVERBS}"
        rf" ){{0,3}}(?!(?:{_ADVERBS}|{_MENTAL}|{_PASTS}|am|are)\b)[a-z]+(?:(?<!ed)|(?<=eed))\b(?!')|{_I} (?:{_ADVERBS} "
        rf"|am |are |was |were |have |been ){{0,3}}(?:an?(?! (?:bit|lot|little|few|mix|big)\b)|allergic|based|married"
        rf"|engaged|divorced|single|retired|pregnant|diabetic|diagnosed|born|living|working (?:at|for|as|from)|moving"
        rf"|learning|studying|training|planning|taking an?|turning|building|moved|bought|adopted|joined|graduated|quit"
        rf"|sold|lost|hired|signed|been (?!(?:think|try|mean|want|look|consider|wonder|hop|gett|hav|feel|see|hear"
        rf"|ask)ing)\w+ing)\b|\b(?:last|next|this) (?:year|month|week|weekend|spring|summer|autumn|fall|winter|night)\b"
        rf"|\w+ ago\b|\b(?:yesterday|today|recently|lately)\b|^(?:my|our) (?:[\w'-]+ ){{1,2}}(?:is|are|has|have|can't"
        rf"|can|will|doesn't|don't|won't|[a-z]{{3,}}s|named|called|died|broke)\b|\b(?:my|our) \w+, (?-i:[A-Z])|^[a-z]+,"
        rf" my \w+,"
    ),
    asserting=Pattern(
        r"(?:'s|\b(?:is|are|was|were|has|have|had|will|costs?|starts?|opens?|closes?|means|takes?|said|says|lives?"
        r"|works?|needs?|left|made|gets?|goe?s?|comes?|keeps?|belongs?|leaves?|runs?|meets?|broke|gives?|makes?|hates?"
        r"|loves?|wants?|took|stays?|head|hid|\w+ed))\b"
    ),
    wanting=Pattern(
        r"\b(?:(?:i|we)(?:'d|'ll| would| will| do| did|'m)?(?: (?:also|just|really|only|still)){0,2} (?:want(?:ed)?"
        r"|need(?:ed)?|requir\w+|wish\w*|hop(?:e|ed|ing))|(?:you|i)(?:'d| would| will)(?: \w+)? (?:like|love|rather"
        r"|want|need)|would(?! prefer)|should|you (?:can|could|may|might|want|need)|(?:will|going to) (?:do|need|be)"
        r"|wanna|gonna|looking to|(?:we|one|people|everyone)(?:'ve| have)? (?:all |just |got |really )*(?:can|gotta|to"
        r"|need)|looking for|(?:i'm|i am) looking|searching for|(?:want|like|love|prefer|trying|hoping)(?:ed|ing)?"
        r" (?:you |to )|interested in|how about|(?:get|let|give) me|please|(?:i|we) must|wanting|bet|(?:in|the) mood|i"
        r" have (?:a|some|any|another) (?:\w+ )?(?:questions?|problems?|doubts?))\b"
    ),
    forbidding=Pattern(
        r"^(?:(?:please|so|and|but|just|kindly|also),? ){0,2}(?:never (?!had|been|saw|knew|thought|\w+ed\b)|(?:don't|do"
        r" not) (?!forget|give up|worry|let|hesitate|be |stop|you|know|think|get|both|we|they|people)|avoid|no more"
        r"|only|no [\w ]{3,20} (?:in|on|at|near|after|before|for|during|until|with|from|please)|always (?:answer|reply"
        r"|use|call|send|write|speak|give|put|ask|include|book))\b|\b(?:must not|mustn't|not allowed|(?:we|i) aren't"
        r" allowed|isn't allowed|forbidden|prohibited|off[- ]limits|no-go|out of the question|(?:is|are|i'm|i am|he's"
        r"|she's|severely) allergic|(?<=\w )allerg(?:y|ies) to|intoleran\w+|(?:strict|a) (?:vegan|vegetarian)s?(?! \w)"
        r"|i'm (?:a )?(?:vegan|vegetarian)|halal|kosher|(?:has|have|needs?) to be (?:\w+ ){0,2}\d|only if|unless|under"
        r" no circumstances|on no account|no (?:more|later|earlier|less) than|(?:can't|cannot|mustn't|won't) have"
        r"|(?:can't|cannot|mustn't|won't|don't) (?:eat|drink|take|use|touch|fly|drive|stand|accept|handle|tolerate|do"
        r" (?:\w+days|mornings|evenings))|strictly)\b"
    ),
    deciding=Pattern(
        r"\b(?:decided|settled on|agreed|chose|chosen|picked|going with|went with|go with|opted|booked|reserved"
        r"|confirmed|cancell?ed|ordered|scheduled|signed up|enrolled|registered|i'll take|we'll take|sent|refunded"
        r"|rescheduled|moved (?:your|the)|i've (?:made|added|put|set)|promised)\b"
    ),
    preferring=Pattern(
        r"\b(?:i|we)(?:'ve|'d)? (?:(?:really|always|usually|also|still|much|now|absolutely|generally|do not|don't|no"
        r" longer|never|would|can't|cannot) ){0,3}(?:like|love|enjoy|prefer|hate|dislike|avoid|adore|stand)\b(?! to"
        r" (?:know|ask|book|order|get|see|buy))|\bmy favou?rite \w|\b(?:fan of(?! (?-i:it|them|that))|fond of|keen on"
        r"|allergic to|vegan|vegetarian)\b|^(?:please )?(?:always|never) (?:answer|reply|write|use|call|speak|send"
        r"|give)\b"
    ),
    vague=Pattern(
        r"\b(?-i:it|its|they|their|them|he|she|his|her|him|there|here|things|stuff)\b|\b(?:something|everything"
        r"|nothing)\b|^(?:(?:and|but|so) )?(?:that|this|these|those|much|lots?|been|one|some|all|both|same|many|its?"
        r"|they|their|he|she|his|her|there|here)\b|\b(?:this|these|those) (?!year|month|week|morning|evening|afternoon"
        r"|spring|summer|autumn|fall|winter|time)\w|\b(?:the|my|our|old|new|this|that|been|prefer|choose|like|ordered"
        r"|bought|got) ones?\b|\b(?P<bare>that|this|these|those|one|another|(?-i:it|them|there)(?=\W*$|[,;]))(?=\W*$"
        r"|[,.;]| (?:and|but|so|for|in|on|at|as|to|too|with|before|after|over|until|either)\b)"
    ),
    denying=Pattern(
        r"n't\b|\b(?:no(?! problem| one| idea| longer)|not(?! only| just)|cannot|no longer|never|anymore|without|nobody"
        r"|avoids?|quit|stopped|gave up|given up|cancel(?:l?ed|l?ing)?|sold|got rid of|resigned|left|dropped|deleted"
        r"|unsubscribed|retired from|broke up|called off|ended|expired|fell through|used to|hates?|dislikes?)\b"
    ),
    changing=Pattern(
        rf"\b(?:now|nowadays|these days|from now on|instead|new one|switched|replaced|swapped|{_MOVED})\b"
    ),
    adding=Pattern(
        r"\b(?:also|too|as well|another|second|additional|both|either|sometimes|temporar\w+|was|were|had|ago|last"
        r"|yesterday|today|tomorrow|tonight|next|planning|plan to|hope|if"
        r"|thinking)\b"
    ),
    relations=tuple(
        Relation(attribute, Pattern(pattern))
        for attribute, pattern in (
            ("home", rf"\b(?:live|lives|living|reside|resides|based|moved|relocated)(?: now)? (?:in|to) {_NAME}"),
            (
                "employer",
                rf"\b(?:(?:works?|working|employed)(?: now)? (?:at|for)|joined|started (?:working )?at) {_NAME}",
            ),
            ("favourite", r"\bmy favou?rite (\w+) is (?P<value>\w+)"),
            ("age", r"\b(?:am|i'm|is|turned) (?:now )?(?P<value>\d{1,2})(?: years? old)?\W*$"),
        )
    ),
    attribute=Pattern(
        rf"\b(?:my|our|the|[A-Z]\w+'s)\s(?P<name>(?:[\w'-]+ ){{0,3}}?(?:{_SINGLE})s?)(?: (?:address|date|time))?(?:'s"
        rf"|(?: (?:is|are|was|were|has|have|been|now|got|just|{_MOVED}))+(?: (?:to|at|on"
        rf"|from))?)\s(?P<value>.+)|^(?:i|we)(?:'ve"
        rf"| have| just)* {_MOVED} (?:my|our|the) (?P<name2>(?:[\w'-]+ ){{0,3}}?(?:{_SINGLE})s?)(?: \w+"
        r"){0,6}? to (?P<value2>.+)"
    ),
    dates=synonyms(
        "weekday=monday mon mondays monday|weekday=tuesday tue tuesdays tuesday|weekday=wednesday wed wednesdays "
        "wednesday|weekday=thursday thu thursdays thursday|weekday=friday fri fridays friday|weekday=saturday sat "
        "saturdays saturday|weekday=sunday sunday sundays|month=1 january jan|month=2 february feb|month=3 "
        "march|month=4 april apr|month=5 may|month=6 june jun|month=7 july jul|month=8 august aug|month=9 september "
        "sept|month=10 october oct|month=11 november nov|month=12 december dec"
    ),
    follow_up=Pattern(
        r"\s*(?:(?:ok(?:ay)?|well|hmm+|thanks|right|great|yes|no)[,.!]*\s+)*(?:and|or|but|also|then|so|plus|(?:what"
        r"|how) about|what if|why not|(?:why|how) so|which ones?|(?:what|who|where) else|any (?:others?|more)|anything"
        r" else|another one|like what|such as|go on|tell me more|more (?:details?|about)|for (?:example|instance)|in"
        r" (?:which|what) case|(?:the )?same (?:for|with|in))\b"
    ),
    pointer=Pattern(
        r"\b(?:it|its|they|them|theirs?|those|these|this|he|him|his|she|hers?|the (?:former|latter|others?)|(?:the"
        r" )?(?:first|second|third|last|next|previous|other|same|cheaper|bigger|smaller|better|newer|older) ones?"
        r"|(?:that|which|other|another) (?:one|case|part|option|time|day|place|person|point)|(?:about|of|for|with|from"
        r"|to|in|on|like|after|before|than|by|is|was|does|did|do|can|could|will|would|should|has|have|why|how) that(?!"
        r" (?:i|you|we|he|she|they|it|is|are|was|were|has|have|can|will)\b)|(?:from|in|over|to|get|go|going|lives?"
        r"|lived|stay|up|down|out) there)\b|\b(?:that|there)\s*[?.!]*\s*$"
    ),
    personal=word_set("he him his she her hers they them their theirs its"),
    expletive=Pattern(
        r"\b(?:(?:is|was|isn['’]t|would|will) (?:be )?it (?:be )?|it (?:is|was|would be|will be) )(?:true|possible"
        r"|impossible|legal|illegal|necessary|safe|ok|okay|worth|better|best|hard|easy|common|normal|important)\b"
        r"|\b(?:does|did|will|would) it (?:(?:take|cost) to|rain|snow)\b|\bit (?:takes?|costs?) (?:\w+ )?to\b|\bwhat"
        r" (?:time|day|date) is it\b"
    ),
    defining=Pattern(r"\b(?:what(?:['’]s| is| are)|who(?:['’]s| is| are| was)|define|meaning of|explain)\b"),
    definite=Pattern(r"\bthe\s+\w+"),
    asking_words=word_set(
        "want need know think show explain find help look question answer mean thing things wonder wondering see "
        "recommend suggest compare describe list details detail example curious try sure okay ok also still"
    ),
    labels=word_set(
        "user users customer client person people speaker says said states stated mentions mentioned reports wants "
        "needs prefers preference prefer likes like dislikes hates loves enjoys allergic allergy allergies intolerant "
        "lives works working resides employed employer job occupation owns named called name number id code address "
        "email phone contact date time day deadline due budget price cost amount total size colour color agreed "
        "agreement decided decision chose chosen choice selected plans planning plan intends going must not never "
        "cannot should avoid required requires requirement condition conditions only status currently current location "
        "based scheduled schedule appointment confirmed reservation reserved booked booking order ordered family "
        "relationship married age old reason because"
    ),
    numbers=synonyms(
        "1 one|2 two twice pair couple|3 three|4 four|5 five|6 six|7 seven|8 eight|9 nine|10 ten|11 eleven|12 twelve "
        "dozen|13 thirteen|14 fourteen|15 fifteen|16 sixteen|17 seventeen|18 eighteen|19 nineteen|20 twenty|30 "
        "thirty|40 forty|50 fifty|60 sixty|70 seventy|80 eighty|90 ninety"
    ),
    phrasings=synonyms(
        "like love enjoy adore prefer fond|live living reside residing based|work working employed|allergy allergic"
    ),
    speaker=word_set("user i i'm i've"),
    directed=word_set("to from than over under before after until instead against without"),
    self_quoted=r"(?:I|I['’](?:m|ve|d|ll)|My|We|Our)\s[a-z]",
    forget=Pattern(
        rf"^{_LEADS}(?:forget\b(?!\s(?:to|it|not)\b)|unlearn\b|(?:don['’]t|do not|stop|never) (?:remember(?:ing)?"
        rf"|stor(?:e|ing)"
        r"|sav(?:e|ing)|memori[sz](?:e|ing)|keep(?:ing)? in mind)\b|(?:delete|erase|remove|drop|discard|wipe|clear"
        r"|scrap)\b[^.!?\n]{0,40}?\b(?:memor(?:y|ies)|your (?:notes|records)|what (?:i|we) (?:said|told|mentioned"
        r"|wrote)|that (?:i|i['’]m|i['’]ve|my|we))\b)"
    ),
    said_instead=Pattern(
        r"(?s).{0,1200}?(?:[,;.—–-]\s(?:(?:but|and|because|since|as|now|instead|actually|in fact|these"
        r" days)[\s,]{1,2}){0,2}(?=(?:i|i['’]m|i['’]ve|we|it['’]s)\s)|\s(?:because|since)\s(?=(?:i|i['’]m|i['’]ve"
        r"|we)\s))"
    ),
    text_task=Pattern(
        rf"(?m)(?:^|(?<=[.!?,]\s))[ \t]*(?:(?:an? )?(?:example|sample)\b|{_LEADS}(?:translate|proofread|rewrite"
        rf"|rephrase"
        r"|paraphrase|summari[sz]e|polish|shorten|(?:correct|fix|check|improve|edit|review)\s(?:(?:it|this"
        r"|that)\b(?!\sout\b)|[^:\n\"“.]{0,40}?\b(?:grammar|spelling|english|text|sentences?|paragraph|translation"
        r"|essay|letter|e-?mail|draft))))\b(?:[^:\n\"“.]{0,60}(?::\s{0,3}|(?=[\"“]))|[^:\n]{0,40}\b(?:following"
        r"|below)\b[^:\n]{0,40}\n)"
    ),
)
