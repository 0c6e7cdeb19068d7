"""Words that the analyzer knows: stop words, irregular English forms, Korean particles."""

import re

__all__ = ["BASE_FORMS", "GENERAL_NOUNS", "KOREAN_PARTICLES", "KOREAN_STOP_WORD", "STOP_WORDS", "UNSPACED_STOP_WORD"]

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
"""English words, question words among them, that say nothing about what is asked for."""

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
"""English forms that no suffix rule brings back to their word ("grew": "grow")."""

KOREAN_PARTICLES = re.compile(
    "(?<=[가-힣]{2})(?:(?:에서|에게|한테|께서|까지|부터|으로|처럼|보다|이랑|이나|라도|마다|밖에|조차|만)?(?:은|는|도|만|의)"
    "|에서|에게서|에게|한테서|한테|께서|까지|부터|으로|처럼|보다|이랑|이나|라도|마다|밖에|조차|하고|이|가|을|를|에|로|와|과|랑|께"
    "|(?:이라|라)(?:고|는|서)|이에요|예요|이야|입니다|입니까|인가요|이었어요|였어요|이고|인데|이면|이라면)$"
)
"""What stands behind a noun of two syllables or more, and does not belong to it."""

KOREAN_STOP_WORD = re.compile(
    "(?:뭐|뭘|뭔|무엇|무슨|어떤|어떻|어때|어느|어디|언제|누구|누가|얼마|몇)[가-힣]{0,4}|왜(?:요|죠|지|인가요|인지)?"
    "|(?:있|없|하|했|되|됐|했었|였|이었|이|갔|왔)(?:나요|나|어요|어|습니까|니|지|죠|는지|었지|었죠|는가|을까요|을까|던가요|더라)"
    "|(?:인|한|된|던|그런|이런|저런)(?:가요|가|지)|하기로|해야|주세요|줘|줘요|알려|알려줘|알려주세요|말해|말해줘|말했|기억나|기억해"
    "|그리고|그래서|그런데|근데|하지만|그|이|저|것|거|것은|건|게|수|때|데|등|및|좀|제|제가|저는|내|내가|나는|나|난|전|우리|네|당신"
)
"""A whole word that only makes a question or points at somebody."""

UNSPACED_STOP_WORD = re.compile(
    "请问|請問|什么|什麼|哪里|哪裡|哪儿|哪个|哪個|哪些|哪|谁|誰|多少|怎么|怎麼|怎样|怎樣|为什么|為什麼|为何|何时|如何|[的吗嗎呢吧了是]"
    "|なに|なん|何|いつ|どこ|だれ|どの|どれ|どう|なぜ|いくら|いくつ|でしょうか|ですか|ますか|ましたか|です|ます|ました|[はがをにでとのか]"
)
"""What makes a question in Chinese or Japanese, and the particles that every sentence has."""
