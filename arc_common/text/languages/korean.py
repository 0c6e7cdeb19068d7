"""Korean sentences: how they begin, ask, suppose, thank and join, whatever they state."""

import re

__all__ = [
    "ASKING",
    "CHIT_CHAT",
    "CONDITION",
    "FORGET",
    "GIVEN",
    "JOINER",
    "LEAD_INS",
    "QUESTION",
    "REPORTED",
    "REQUEST",
    "SAID_INSTEAD",
    "SUPPOSITION",
    "TAG",
    "TASK",
    "TEXT_IN_TASK",
    "TEXT_TASK",
]

LEAD_INS = re.compile(
    r"^(?:(?:참|아|어|음|네|예|응|저기|그리고|그런데|근데|그래서|그러니까|하지만|그래도|사실은?|일단"
    r"|우선|암튼|아무튼|어쨌든|그나저나|아 맞다|맞다|아 참|그럼"
    r"|좋아요|알겠어요|고마워요|감사합니다|안녕하세요|혹시|참고로|아 그리고|또|아니"
    r"|혹시나 해서 말씀드리면|말씀드리자면)(?=[\s,.!~])[\s,.!~]{1,4})"
)
"""What a sentence may begin with and lose nothing without."""

QUESTION = re.compile(
    r"(?:나요|까요|가요|을까|ㄹ까|니|냐|는지|은지|던가요?|인가|습니까|ㅂ니까|어때요?|어떨까요?|있어요"
    r"|있나|되죠|하죠|알아요?|뭐예요|뭐야)?\s?\?\W{0,3}$"
    r"|(?:(?<![\s떠끝어만지태빛러겨])나요|까요|습니까|입니까)\W{0,3}$"
)
"""Without a question mark "-나요" is also how verbs in -나 state something ("떠나요", "끝나요")."""

REQUEST = re.compile(r"(?:주실|줄|주시)\s?수\s?있|주시겠|줄래|줄\s?수|주실래")
"""A question that asks for something to be done: what is to be done is said in it."""

CHIT_CHAT = re.compile(
    r"고맙|고마워|감사(?:합|해|드)|죄송|미안|안녕|수고|반갑|궁금|모르겠|몰라|잘 모르|설명해"
    r"|알려 ?(?:주|줘)|말씀(?:해|하신)|봐 ?(?:주|줘)|추천(?:해"
    r"|\s?좀)|도와 ?(?:주|줘)|부탁|이해해|들어 ?줘|괜찮아요$|좋은 아침|주말 잘|(?:것|거) 같(?:아|네|은"
    r"|습)|느낌이|기분이|생각(?:이|도) (?:들"
    r"|나)|생각해 ?보|생각을 정리|생각보다|얘기(?:가|해 ?보|하다)|물어(?:보|볼|봐)|고민해 볼"
    r"|나 ?봅니다|나 ?봐|뻔했|더라고요?|든든|하소연|믿어요|더라면"
    r"|싶었는데|편하게 말|천천히|(?:신경 ?쓰지|걱정(?:은|하지)?) ?(?:마(?:세요|요|라)?|말아 ?(?:요|주세요|줘))\W*$"
    r"|그럴 리(?:가|는)? ?없[가-힣]*\W*$|^(?:절대로?|전혀) 아니(?:에요|야|다)\W*$"
)
"""Courtesies, and comments on the conversation itself."""

ASKING = re.compile(
    r"(?:혹시\s)?(?:뭐|뭘|뭔|무엇|무슨|어떤|어떻게|어디|어느|언제|누가|누구|얼마|몇|왜)(?!든|든지|라도)"
)
"""How a clause of a question begins when it begins with the word that asks."""

SEEKING = re.compile(
    r"(?:뭐|뭘|뭔|무엇|무슨|어떤|어떻게|어디|어느|언제|누가|누구|얼마|몇|왜)(?!든|라도)"
    r"|알려|말해|가르쳐|보여|찾아|정리해|요약|추천|부탁|궁금|까먹|잊어버|잊었|헷갈|모르겠|기억(?:나|이\s(?:안\s)?나|\s안|하|해)"
    r"|알고\s있|아세요|아시나|저번에|지난번|아까|계속해"
    r"|(?:줘|주세요|줄래|주실|주시겠|주라)(?:요)?"
    r"|(?:나요|까요?|(?<![머언])니|냐|던가요?|더라|었지|였지|했지|이지|는지|은지|을지|려나|어때요?|[인한된은는]가요?|죠"
    r"|[있없했었았였됐갔왔맞되]나|[은는]요?|좀)[\s.!~]*$"
)
"""A sentence that looks for something: a question with or without its mark, a request, what was forgotten."""

TAG = re.compile(r"(?:그렇죠|맞죠|맞지|그치|그죠|(?:이|하|되|있|없|었|았|겠)(?:죠|지요))\s?\?\W{0,3}$")
"""A question that only asks to agree."""

GIVEN = re.compile(r"(?<=,\s)(?:왜냐하면|왜냐면)\s")
"""How the reason of a question begins, which is stated."""

TASK = re.compile(
    r"알려|설명|추천|말씀|가르쳐|보여|찾아|도와|비교|정리해|요약|번역|써\s?(?:주|줄)|만들어|작성|봐\s?(?:주|줄)|알\s?수"
)
"""A request for information or for a text: what it is about is not stated."""

SUPPOSITION = re.compile(
    r"(?:만약|만일|가령|혹시라도)[가-힣]{0,2}\s.{0,60}(?:다면|라면|으면).{0,60}(?:텐데|어떨|어떡|어쩌|을까|ㄹ까|될까|할까)"
    r"|[가-힣](?:다면|라면)\s(?:어떨|어떡|어쩌|얼마나|뭐가)|(?:더라면|[가-힣]으면\s(?:얼마나\s)?좋(?:을|았을|겠))"
    r"|[가-힣](?:다고|라고)\s(?:치(?:면|고|자)|가정)|가정(?:해|하면|하에)|면\s(?:어떨까|어떡하|어쩌지|어떻게\s(?:될까|되나))"
)
"""What is only imagined: wishes, and conditions against the facts."""

REPORTED = re.compile(
    r"(?:(?![가-힣]{0,11}(?:데|고|만|니까|서)\s)[^\s,]{1,12}\s){0,8}[^\s,]{0,10}(?:는지|은지|인지|을지|[갈할될올볼살줄날일]지|냐고|느냐고|까\s?하고)(?:를|도|가|는)?\s"
    r"(?:[가-힣]{1,6}\s){0,2}"
    r"(?:물어|물었|묻|여쭤|여쭈|궁금|모르|몰라|몰랐|알고\s?싶|알려|확인|확실|헷갈|고민|생각\s?중)"
)
"""A question in the words of one who tells of it."""

JOINER = re.compile(r"(?<=는데|인데|은데|한데|운데|지만|니까|라서|어서|아서|해서|하고|이고|거든|으며)\s")
"""Where a long clause may be divided."""

CONDITION = re.compile(r"(?:[가-힣]면|경우(?:에는?|라면)?)[\s,]{0,2}$")
"""How a clause ends that says in which case the question behind it is asked."""

FORGET = re.compile(
    r"(?:잊어\s?버려|잊어|까먹어)\s?(?:줘|줄래|주세요|주십|주시|주고|라(?![가-힣]))|잊으(?:세요|십)|기억(?:은|도)?\s?하지\s?(?:마|말)"
    r"|(?:기억|메모리|저장한?\s?(?:것|거|내용|정보))(?:[을를은는도]|에서|에)?\s(?:모두|전부|다|좀)?\s?(?:지워|없애|삭제\s?해|빼)\s?(?:줘|줄래|주|라)"
)
"""What asks to forget what its sentence says."""

SAID_INSTEAD = re.compile(r"(?:[가-힣]{0,4}[,.;!]|고)\s")
"""Where behind what is to be forgotten something begins that is stated."""

TEXT_TASK = re.compile(
    r"(?:^|(?<=[.!?]\s))[^:：\n.!?]{0,60}?(?:번역|교정|첨삭|요약|윤문|맞춤법|문법|다듬어|고쳐)[^:：\n.!?]{0,20}(?:[:：]|\s[-–—])\s{0,3}"
    r"|^[^\n]{0,20}(?:다음|아래)[^\n]{0,40}?(?:번역|교정|첨삭|요약|윤문|맞춤법|문법|다듬어|고쳐)[^\n]{0,20}\n",
    re.MULTILINE,
)
"""What asks for work on a text, to where that text begins."""

TEXT_IN_TASK = re.compile(
    r"[\"“「'‘][^\"”」'’\n]{3,400}[\"”」'’](?=[^\n.!?\"“]{0,15}(?:번역|교정|첨삭|요약|맞춤법|문법|다듬어|고쳐))"
)
"""A text in quotation marks in front of what asks for work on it."""
