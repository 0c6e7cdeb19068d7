"""What kind of answer a question asks for, and which texts have one of that kind.

"Who" asks for a person, "by when" for a date, "why" for a reason (Li & Roth, "Learning question classifiers", 2002):
a text that holds none is unlikely to hold the answer, whatever words it shares with the question. English and Korean,
by closed classes of words and by what values look like.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["AnswerType", "answer_types"]


@dataclass(frozen=True, slots=True)
class AnswerType:
    """A kind of answer.

    Args:
        name: What it is.
        asked: Matches a question for it.
        answers: Matches a text that may hold one. Linear in the text: every repetition in it is bounded.
    """

    name: str
    asked: re.Pattern[str]
    answers: re.Pattern[str]


_MONTH = (
    "january|february|march|april|may|june|july|august|september|october|november|december"
    "|jan|feb|mar|apr|jun|jul|aug|sept|oct|nov|dec"
)
_DAY = "(?:mon|tues|wednes|thurs|fri|satur|sun)days?"
_NUMBER = (
    "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen"
    "|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand|dozen|couple|pair|half|twice"
    "|double|single|grand"
)
_KOREAN_NUMBER = (
    "(?:[일이삼사오육칠팔구십백천만]{1,8}|한|두|세|네|다섯|여섯|일곱|여덟|아홉|열|열한|열두|스무|서른|마흔|쉰|예순"
    "|일흔|여든|아흔|[0-9]{1,9})"
)
_KOREAN_COUNTER = "(?:명|개|대|마리|권|장|살|잔|병|번|사람|분|가지|채|송이|그루|벌|켤레)"
_KOREAN_KIN = (
    "(?:엄마|아빠|어머니|아버지|동생|언니|오빠|누나|형|아들|딸|남편|아내|와이프|이모|고모|삼촌|사촌|조카|친구|동료"
    "|선생|교수|사장|이웃)"
)
_PROPER_NAME = r"(?<=[a-z,] )(?!I\b|I['’])[A-ZÀ-Ý][a-zà-ÿ]{1,30}"


def _type(name: str, asked: str, answers: str, *, cased: bool = False) -> AnswerType:
    """Capitals never matter in a question, and in an answer only if `cased`."""
    return AnswerType(name, re.compile(asked, re.IGNORECASE), re.compile(answers, 0 if cased else re.IGNORECASE))


_TYPES = (
    _type(
        "requirement",
        r"\b(?:have|has|need|needs) to\b|\bmust\b|\brequire|해야|필요|[어아여]야",
        r"\b(?:have|has|need|needs|ought) to\b|\bmust\b|\brequire|\bneeds?\b|야\s?(?:해|돼|되|하|합|됩)|필요|반드시|꼭",
    ),
    _type(
        "reason",
        r"\bwhy\b|\breason\b|how come|왜(?![가-힣]{2})|이유",
        r"\b(?:because|since|due to|so that|so (?:i|we|he|she|they)|on account of|owing to|thanks to|that's why"
        r"|as (?:i|we|it|the|he|she|they))\b|,\s(?:the|my|our|it|he|she|they|i|we) \w"
        r"|(?:[가-힣](?<![에께따로])서|때문|바람에|느라|니까|다고|탓에|덕분에)\s",
    ),
    _type(
        "occupation",
        r"\b(?:job|occupation|profession|trade|career)\b|for (?:work|a living)|earn"
        r"|직업|무슨 일|직장|먹고|돈을? 벌",
        r"\b(?:i|he|she|we|they)(?:'m| am|'s| is|'re| are|'ve| have)? (?:an? |\w{1,12}ing to be |been )"
        r"|\bas an? |\bby (?:day|trade)\b|for a living|working life|pays? my|\bwork(?:s|ed|ing)? (?:as|at|for|in)\b"
        r"|(?:으로|로|에서)\s(?:[가-힣]{1,8}\s){0,2}(?:일하|근무|가르|출근)|먹고살|일을?\s?(?:해|하)|다니|만 하다가"
        r"|보고 있",
    ),
    _type(
        "money",
        r"how (?:much|expensive)|\b(?:price|costs?|fee|rate|rent|budget|salary|deposit|debt|sum|pay)\b"
        r"|얼마(?!나)|가격|비용|예산|요금|월세|금액|빚|월급|연봉",
        r"[$€£¥₩]\s?[0-9]|[0-9]\s?(?:k\b|€|£|\$|euros?\b|dollars?\b|pounds?\b|quid\b|bucks\b|francs\b|won\b|yen\b)"
        rf"|\b(?:{_NUMBER})\s(?:[a-z]{{1,12}}\s)?(?:euros?|dollars?|pounds?|quid|bucks|francs|won|yen|grand|cents)\b"
        rf"|\b(?:tenner|fiver|grand|quid)\b|(?:[0-9]|\b(?:{_NUMBER}))\s(?:a|an|per|each)\s\w|\b[0-9]{{1,3}},[0-9]{{3}}\b"
        r"|[0-9일이삼사오육칠팔구십백천만]\s?원",
    ),
    _type(
        "count",
        r"how many|number of|몇\s?(?:명|개|대|마리|권|장|살|잔|병|번|사람|분이|가지)|몇이|인원",
        rf"[0-9]|\b(?:{_NUMBER})\b|{_KOREAN_NUMBER}\s?{_KOREAN_COUNTER}|[둘셋넷]|다섯",
    ),
    _type(
        "measure",
        r"how (?:long|wide|tall|high|far|big|old|heavy|deep|large|often|fast|small)"
        r"|\b(?:size|length|width|height|weigh|weight|dimensions|distance|duration)\b"
        r"|얼마나|크기|사이즈|길이|너비|폭|높이|무게|기간|몇\s?(?:시간|분|센티|미터|킬로|인치)",
        rf"[0-9]|\b(?:{_NUMBER})\b"
        rf"|{_KOREAN_NUMBER}\s?(?:시간|분|일|주|달|개월|년|센티|미터|킬로|인치|그램|평|층|호|도|박)",
    ),
    _type(
        "time",
        r"\bwhen\b|what (?:time|day|date|year|month)|which (?:day|date|month|year|evening|morning)|how soon|deadline"
        r"|\bdate\b|cut-?off|birthday|anniversary|언제|며칠|몇\s?[시월일]|무슨\s?요일|날짜|마감|기한|생일",
        rf"\b(?:{_MONTH}|{_DAY}|noon|midnight|midday|dawn|dusk|sunset|sunrise|mornings?|evenings?|afternoons?|nights?"
        r"|tonight|tomorrow|weekends?|weekdays|spring|summer|autumn|fall|winter|christmas|easter|new year|end of"
        r"|o'clock|before|after|until|till|by the|next (?:week|month|year)|term|holidays)\b"
        r"|\b(?:half|quarter|ten|twenty|five) (?:past|to) "
        rf"|\b(?:half|at|after|before|by|until) (?:[0-9]|(?:{_NUMBER})\b)"
        r"|\b[0-9]{1,2}(?::[0-9]{2}|\s?[ap]\.?m\b|(?:st|nd|rd|th)\b)|[월화수목금토일]요일|[0-9]\s?[월일시]"
        rf"|{_KOREAN_NUMBER}\s?[월일시](?:\s|에|부터|까지|이|은|쯤|$)|[시유]월|정오|자정|새벽|아침|저녁|오전|오후|밤"
        r"|내일|모레|주말|주중|평일|(?:이번|다음)\s?[주달]|내년|올해|봄|여름|가을|겨울|연말|월말|[초중하]순|까지",
    ),
    _type(
        "contact",
        r"e-?mail|phone|\breach(?:ed)?\b|contact|\bdial|\burl\b|website|\blink\b|연락|전화|메일|카톡|홈페이지",
        r"@|[0-9]{3}[\s.-][0-9]{3}|\+[0-9]|https?:|www\.|\b[a-z0-9-]{1,40}\.[a-z]{2,12}/|[a-z]_[a-z]|[0-9]-[0-9]{3}",
    ),
    _type(
        "code",
        r"\b(?:number|code|id|reference|pin|password|serial|pnr)\b|번호|코드|암호|아이디|시리얼|비번",
        r"\b(?=[\w-]{0,24}[0-9])(?:[A-Z]{1,6}-?[0-9]|[A-Z0-9]{2,12}-[A-Z0-9])|[0-9]{3}|[a-z]-[0-9]|#[0-9]",
        cased=True,
    ),
    _type(
        "place",
        r"\bwhere\b|which (?:city|country|town|place|region|island|street|room|village)"
        r"|\b(?:address|location|venue|destination|hometown)\b|어디|어느\s?(?:도시|나라|동네|지역)|주소|고향|장소|데가",
        r"\b(?:in|at|near|to|from|on|outside|inside|into|over|under|behind|next to|beside|above|below|around)\s\w"
        r"|(?:에서|에|으로|로)\s|동네|근처|옆|아파트|[가-힣](?:시|도|군|구|동|읍|면|리|섬)\s",
    ),
    _type(
        "person",
        r"\bwho(?:m|se)?\b|누구|누가|이름|성함|\bname\b|\bcalled\b",
        rf"{_PROPER_NAME}|\b(?:Dr|Mr|Mrs|Ms|Prof)\b|\b(?:[Mm]y|[Oo]ur|[Hh]is|[Hh]er|[Tt]heir)\s[\w-]{{1,20}},"
        r"|^[A-Z][a-z]{1,20},|\b(?:named|called)\b"
        r"|[가-힣]{2,4}\s?(?:씨|님|선생|교수|과장|대리|팀장|부장|사장|원장|대표)|라(?:는|고)\s"
        rf"|{_KOREAN_KIN}\s[가-힣]{{2,3}}(?:[이가은는도\s]|한테)",
        cased=True,
    ),
    _type(
        "name",
        r"\b(?:brand|company|firm|employer|make|model|program|software|app|product|called|city|country|language|title"
        r"|which)\b|회사|직장|브랜드|프로그램|제품|기종|모델",
        rf"{_PROPER_NAME}|^[A-Z][a-z]{{1,20}} (?:is|has|was)\b|라(?:는|고)\s|[A-Z]{{2}}",
        cased=True,
    ),
    _type(
        "condition",
        r"(?:what|which) (?:condition|terms|case|circumstances)|what happens|\bif\b"
        r"|어떤 경우|조건|어떻게 되|(?:[으하되쁘이])면",
        r"\b(?:if|unless|provided|providing|as long as|so long as|once|when|whenever|only|should|in case|except"
        r"|as soon as|until)\b|[가-힣](?:면|경우|때)(?:에만|에는|엔|만)?\s|않으면|한해",
    ),
    _type(
        "prohibition",
        r"n['’]t\b|cannot|\bnot\b|forbid|prohibited|banned|avoid|off[- ]limits|no-go"
        r"|안\s?(?:되|돼|받|먹)|못\s?(?:먹|하)|금지|말아야|빼야",
        r"\b(?:never|nobody|no one|not|no|without|avoid|stop|keep|leave|off|out of|cannot)\b|n['’]t\b"
        r"|절대|안\s?(?:돼|되|됩|먹|드)|못\s|마세요|지\s?마|말아|말래|말고|금지|빼|싫",
    ),
    _type(
        "preference",
        r"\b(?:likes?|prefers?|favou?rite|dislikes?|hates?|enjoys?|rather|suits?)\b|좋아|선호|싫어|취향|낫|편한|편하",
        r"\b(?:prefer|rather|loves?|hates?|likes?|over|favou?rite|enjoy|can't (?:stand|bear)|more|best|better|fan|never"
        r"|give me|live on|thing)\b|좋|싫|선호|편하|편해|낫|보다|보단|최고|만\s",
    ),
    _type(
        "decision",
        r"\b(?:decided?|choose|chose|chosen|pick(?:ed)?|agreed|selected|settled|rejected)\b"
        r"|골랐|고르|정했|정해|결정|하기로|기로\s?했|선택",
        r"\b(?:decided|settled|agreed|chose|chosen|went (?:for|with)|going (?:for|with)|gone for|go for|picked|picking"
        r"|voted|in the end|after all|ended up|let's|it is|won|giving|turning down|cancel|taking|i'll|we'll|we're)\b"
        r"|기로|골랐|정했|결정|할게|걸로|려고|됐",
    ),
    _type(
        "plan",
        r"\b(?:will|plans?|wants?|intends?|hopes?|going to|dream|goal)\b|계획|려고|예정|꿈|목표|소원|할\s?거",
        r"\b(?:will|plan|planning|going to|want|hoping|hope|idea is|next year|someday|one day|aim|intend)\b"
        r"|'(?:ll|d love|m \w{2,12}ing|re \w{2,12}ing)\b"
        r"|려고|계획|예정|생각|할\s?거|[갈할달볼살]\s?(?:거|게|까)|싶|목표|소원",
    ),
    _type(
        "state",
        r"\b(?:wrong|matter|state|status|problem|happened|working|issue)\b|상태|문제|고장|어때|어떻게 됐|안 되고",
        r"\b(?:broken|stopped|failing|still|again|out|stuck|flat|never|leak|dead|died|torn|no longer|off|slipping"
        r"|drips?|drops?|since|has)\b|고장|말썽|멈|빠져|죽|안\s|못\s|자꾸|이제|아직|있[어습]|됐",
    ),
)
_MOST_TYPES = 3


def answer_types(question: str) -> Sequence[AnswerType]:
    """The kinds of answer that a question may ask for, the most telling first; at most three, often none."""
    return [kind for kind in _TYPES if kind.asked.search(question)][:_MOST_TYPES]
