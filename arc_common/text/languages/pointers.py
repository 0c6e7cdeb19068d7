"""How questions lean on a conversation, as forms: openings, pronouns, demonstratives. English and Korean above all."""

import re

__all__ = [
    "ASKING",
    "AT_HOME_BESIDE_A_NAME",
    "DEFINING",
    "DEFINITE",
    "EXPLETIVE",
    "KOREAN_ELLIPSIS",
    "NAME",
    "OPENING",
    "POINTER",
]

OPENING = re.compile(
    r"""\s*
    (?:(?:ok(?:ay)?|well|hmm+|thanks|right|great|yes|no|네|응|아|음|좋아요?|고마워요?|감사합니다)[,.!]*\s+)*
    (?:
        (?:and|or|but|also|then|so|plus|what\ about|how\ about|what\ if|why\ not|why\ so|how\ so|which\ ones?|what\ else
         |who\ else|where\ else|any\ (?:others?|more)|anything\ else|another\ one|like\ what|such\ as|go\ on
         |tell\ me\ more
         |more\ (?:details?|about)|for\ (?:example|instance)|in\ (?:which|what)\ case|(?:the\ )?same\ (?:for|with|in))\b
        | (?:그럼|그러면|그래서|그런데|근데|그리고|그렇다면|그러니까|그래도|하지만|아니면|혹은|반대로|마찬가지로
         |또는?(?=\s)|대신(?=\s)|더\s*(?:자세히|알려|설명|있|없))
        | 那么|那麼|那(?=[，,])|然后|另外|还有|那.{0,8}呢 | それで|では|じゃあ|それじゃ|あと(?=は|、)
    )""",
    re.VERBOSE | re.IGNORECASE,
)
"""How a question begins that continues another."""

POINTER = re.compile(
    r"""
    \b(?:it|its|they|them|their|theirs|those|these|this|he|him|his|she|her|hers|the\ (?:former|latter|others?)
       |(?:the\ )?(?:first|second|third|last|next|previous|other|same|cheaper|bigger|smaller|better|newer|older)\ ones?
       |(?:that|which|other|another)\ (?:one|case|part|option|time|day|place|person|point)
       |(?:about|of|for|with|from|to|in|on|like|after|before|than|by|is|was|does|did|do|can|could|will|would|should|has
          |why|how)\ that(?!\ (?:i|you|we|he|she|they|it|is|are|was|were|has|have|can|will)\b)
       |(?:from|in|over|to|get|go|going|lives?|lived|stay|up|down|out)\ there)\b
    | \b(?:that|there)\s*[?.!]*\s*$
    | (?<![가-힣])(?:그|이|저)(?:거|것|건|게|걸|곳|때|분|쪽|애|중|런|렇게|들)
        (?:[은는이가을를도의에로과와]|에서|부터|까지|보다|처럼|만|요|이에요|예요|인가요)*(?![가-힣])
    | (?<![가-힣])(?:그녀|그들|걔|쟤|얘|거기|여기|저기|그때|이때|그날|전자|후자|나머지)
    | (?<![가-힣])(?:그|해당|방금|아까|이런|그런|저런|같은|다른)\s+[가-힣]
    | (?<![가-힣])(?:이|저)\s+(?:사람|제품|상품|회사|책|집|방법|경우|문제|기능|모델|가게|식당|곳|중)
    | (?:첫|두|세|네|다섯)\s*번째\s*(?:거|것|건|게|걸|은|는|이|가|을|를)
    | (?:그|이|저)\s*(?:것|거)들?
    | [它她他]们?|这[个些里]?|那[个些里]|這[個些裡]?|那[個裡]
    | [そこあ](?:れ|の(?![ぁ-ん])|ちら|こ(?=は|が|の|に|で|へ|を))
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Words that stand for something said before."""

AT_HOME_BESIDE_A_NAME = frozenset(["he", "him", "his", "she", "her", "hers", "they", "them", "their", "theirs", "its"])
"""Those that mostly stand for a name, if one comes before them in the question."""

_PREDICATE = (
    "true|possible|impossible|legal|illegal|necessary|safe|ok|okay|worth|better|best|hard|easy|common|normal|important"
)
EXPLETIVE = re.compile(
    rf"""\b(?:is|was|isn['’]t|would|will)\ (?:be\ )?it\ (?:be\ )?(?:{_PREDICATE})\b
    | \bit\ (?:is|was|would\ be|will\ be)\ (?:{_PREDICATE})\b
    | \b(?:does|did|will|would)\ it\ (?:take|cost)\ to\b | \b(?:does|did|will|would)\ it\ (?:rain|snow)\b
    | \bit\ (?:takes?|costs?)\ (?:\w+\ )?to\b | \bwhat\ (?:time|day|date|year)\ is\ it\b
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""An "it" that stands for nothing."""

KOREAN_ELLIPSIS = re.compile(r"\s*\S+(?:\s+\S+)?[은는](?:요)?\s*[?？]*\s*")
"""A whole question that names its topic and asks nothing: "부산은요?"."""

DEFINING = re.compile(
    r"\b(?:what(?:['’]s| is| are)|who(?:['’]s| is| are| was)|define|meaning of|explain)\b|뭐|뭔|무엇|누구|뜻|의미|란\b",
    re.IGNORECASE,
)
"""A question that can do with one word of its own."""

DEFINITE = re.compile(r"\bthe\s+\w+", re.IGNORECASE)
"""Speaks of something as known."""

NAME = re.compile(r"(?<=[\s(\"'“])(?!I\b)[A-Z][\w'’-]*|\b\w*[0-9]\w*\b|\b[a-z]+[A-Z]\w*\b")
"""A word that looks like a name or a code; not the first of a sentence, which always begins with a capital."""

_ASKING = (
    "want need know think show explain find help look question answer mean thing things wonder wondering see recommend "
    "suggest compare describe list details detail example curious try sure okay ok also still 궁금해요 궁금합니다 "
    "궁금한데 싶어요 싶은데 싶습니다 알고 설명해줘 설명해주세요 추천해줘 추천해주세요 보여줘 보여주세요 "
    "찾아줘 찾아주세요 부탁해요 부탁드려요 대해 대해서 관해 관해서 관련 혹시 그럼 그러면 자세히 정도"
)
ASKING = frozenset(_ASKING.split())
"""Words that ask, and say nothing about what for."""
