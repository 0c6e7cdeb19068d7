"""What Korean statements claim about things that have one value at a time."""

import re
from collections.abc import Iterator

from arc_common.memory.rules.claims import Claim, plain, value_of
from arc_common.memory.rules.vocabulary import strip_particles

__all__ = ["claims_of", "is_negated"]

_NEGATION = re.compile(
    r"지\s?(?:는|도|를)?\s?(?:않|못|말)|(?:^|\s)(?:안|못)\s?(?=[가-힣])|아니(?!면|라면)|아닙|(?:더 ?이상|이제는?"
    r"|이젠)\s.*(?:안|못|없)\s?|없(?:다|어|습|음|는)"
    r"|싫|끊었|끊어|끊음|그만\s?두|그만뒀|그만\s?뒀|중단|멀리"
)
_PAST = re.compile(r"(?:예전에는?|옛날에|과거에|한때|어릴\s?(?:때|적)|전에는|었었|았었|\d{4}년에|년\s?전)")
_SPEAKER = re.compile(r"^(?:user|assistant|사용자|어시스턴트)\s*:\s*")
_TOPIC = re.compile(r"^(?P<owner>[^,]{1,24}?)(?P<particle>은|는|이|가|께서는|께서)\s(?P<rest>.+)$")
_USER = frozenset(
    [
        "사용자",
        "유저",
        "고객",
        "저",
        "나",
        "제",
        "내",
        "우리",
        "저희",
        "본인",
        "자신",
        "그",
        "그녀",
        "저의",
        "나의",
        "사용자의",
        "우리의",
        "그의",
        "그녀의",
    ]
)
_TIMES = re.compile(
    r"(?:(?<=\s)|^)(?:지금은?|현재는?|이제는?|이젠|요즘은?|최근에?|더\s?이상|더는|아직도?|여전히|다시"
    r"|지난\s?(?:달|주|해)에?|작년에?|올해|이번\s?(?:달|주)에?"
    r"|어제|오늘|다음\s?(?:달|주)에?|\d{1,2}월에|그냥|정말|아주|매우|너무|진짜|완전|이번에|얼마\s?전에?|방금)(?=\s|$)"
)
_RESIDENCE = re.compile(
    r"(?P<value>[^\s,]+(?:\s[^\s,]+){0,3}?)(?:에서|에)\s?(?:살(?:고|아|아요|기|ㄴ다|고 있다|지|며)?(?!았)|산다"
    r"|삽니다|사는|거주|머물고)"
)
_MOVED = re.compile(
    r"(?:[^\s]+에서\s)?(?P<value>[^\s,]+(?:\s[^\s,]+){0,2}?)(?:으로|로)\s?(?:이사|이주|옮겨\s?(?:갔|왔|살))"
)
_EMPLOYER = re.compile(
    r"(?P<value>[^\s,]+(?:\s[^\s,]+){0,2}?)(?:(?:에서|에)\s?(?:다니|다녀|다닌|다닙|근무|재직|입사|취직|취업|일하"
    r"|일해|일한|일합)|(?:으로|로)\s?(?:이직|옮겼))"
)
_OCCUPATION = re.compile(r"(?P<value>[^\s,]+(?:\s[^\s,]+){0,2}?)(?:으로|로)\s?(?:일하|일해|일한|일합|근무)")
_AGE = re.compile(r"(?:만\s?)?(?P<value>\d{1,3})\s?(?:살|세)(?:이|가|다|입|예|이에|이야|임|이 되|가 되|이\s?됐|$)")
_MARRIED = (
    ("married", re.compile(r"(?:결혼(?:했|을 했|한 상태|하였)|기혼|유부)")),
    ("single", re.compile(r"(?:미혼|독신|싱글|솔로)")),
    ("divorced", re.compile(r"이혼(?:했|한|하였|을)")),
    ("engaged", re.compile(r"약혼")),
)
_PLAN = re.compile(
    r"(?P<value>[^\s,]+(?:\s[^\s,]+){0,1}?)\s?(?:요금제|플랜|등급|멤버십|구독|티어)(?:을|를|으로|로|에|이|가|다"
    r"|입|예)?(?=\s|$|[가-힣])"
)
_SINGLE = (
    "이름|성함|별명|닉네임|나이|예산|마감일|마감|기한|납기|전화번호|연락처|휴대폰|번호|이메일|메일|주소|생일|직업|직장|회사"
    "|직책|직급|직위|비밀번호|연봉|월급|급여|월세|키|몸무게|체중|사이즈|치수|혈액형|국적|시간대|통화|목표|한도|가격|비용"
    "|상사|팀장|매니저|담당자|주치의|아내|남편|배우자|애인|여자친구|남자친구|회의|미팅|약속|면접|비행기|항공편|기차|시험"
    "|예약|결혼식|파티|수업|출발|도착|출시일|시작일|종료일|입주일|모국어|고향|도시|수도|대표|목적지|인원|상태|방|좌석"
    "|버전|색|색상|음식|영화|음악|책|운동|계절|팀|요금제|등급|플랜"
)
_ATTRIBUTE = re.compile(
    rf"^(?P<about>(?:[^\s,]+\s){{0,6}}?)(?P<head>{_SINGLE})(?:은|는|이|가)\s"
    r"(?P<value>.+?)(?:(?:으로|로)\s(?:(?:늘|줄|오르|올|내|바뀌|바뀐|바꼈|변경|조정|연기|미뤄|당겨|확정|정해"
    r"|수정|업데이트|인상|인하|증액|감액|축소|확대|연장|낮|높).*)"
    r"|(?:이에요|예요|입니다|이다|이야|이고|임|다|야|에\s?(?:있|시작|출발|열).*|까지(?:다|이다|입니다|예요)?))?$"
)
_CHANGE_OF = re.compile(
    rf"^(?P<about>(?:[^\s,]+\s){{0,5}}?)(?P<head>{_SINGLE})(?:을|를)\s(?:[^\s]+에서\s)?(?P<value>.+?)(?:으로|로)\s"
    r"(?:늘|줄|올|내|바꾸|바꿨|바꿔|변경|조정|연기|미루|미뤘|당기|당겼|확정|정했|수정|업데이트|인상|인하|증액"
    r"|감액|축소|확대|연장|낮|높)"
)
_SUPERLATIVE = "가장 좋아하"
_LIKES = (
    "좋아하|좋아해|좋아한|좋아합|좋아함|즐기|즐겨|즐긴|즐깁|선호|마시|마셔|마신|마십|먹|사용|쓰|쓴|써|원하|원해|원한|피우|피워|피운|피웁|보는|봐|본다"
    "|하는|한다|해요|합니다|싫어하|싫어해|싫어한|싫어합|싫어함|싫다|싫어|끊|그만|못|안|타고|탄다|타요|키우|키워|키운|다니|다녀|다닌"
)
_AFFINITY = re.compile(
    rf"^(?P<object>.{{1,40}}?)(?:을|를|은|는|이|가|도)?\s(?:(?:더\s?이상|이제는?|안|못|잘|자주|매일|다시"
    rf"|거의)\s)*(?P<verb>{_LIKES})"
)
_STATE = re.compile(
    r"^(?P<what>[^\s,]+(?:\s[^\s,]+){0,3}?)(?:이|가|은|는)?\s?(?:아니다|아니에요|아닙니다|아니야|아님|아니|이다"
    r"|다|입니다|이에요|예요|이야|야|임)$"
)
_HAS = re.compile(r"^(?P<what>.{1,40}?)(?:이|가|은|는|도)\s(?:더\s?이상\s)?(?:있|없)(?:다|어요|습니다|어|음)$")
_WORD = re.compile(r"[0-9a-z가-힣][\w@.+:/-]*")
_ENDING = re.compile(
    r"(?:이에요|이예요|예요|에요|입니다|이다|이야|이고|임|다|야|정도|쯤|에|까지|으로|로|을|를|이|가|은|는)$"
)
_LEAST_STEM = 1


def is_negated(text: str) -> bool:
    """Whether the text denies something."""
    return any("가" <= character <= "힣" for character in text) and _NEGATION.search(plain(text)) is not None


def claims_of(sentence: str) -> Iterator[Claim]:
    """What a Korean sentence claims."""
    text = _SPEAKER.sub("", plain(sentence))
    if _PAST.search(text):
        return
    negated = _NEGATION.search(text) is not None
    owner, rest = _topic(text)
    rest = " ".join(_TIMES.sub(" ", rest).split())
    if not negated:
        yield from _single_values(owner, rest, " ".join(_TIMES.sub(" ", text).split()))
    yield from _polarity(owner, rest, negated=negated)


def _topic(text: str) -> tuple[str, str]:
    """Whom a sentence is about, "user" if it names nobody else, and what it says."""
    match = _TOPIC.match(text)
    if match is None:
        return "user", text
    words = [word for word in match["owner"].split() if word not in _USER]
    words = [re.sub(r"의$", "", word) for word in words]
    if re.search(rf"(?:{_SINGLE})$", match["owner"]) or (
        words and match["particle"] in ("이", "가") and not _is_somebody(words)
    ):
        return "user", text
    return " ".join(words) or "user", match["rest"]


_PEOPLE = re.compile(
    r"(?:누나|언니|오빠|형|동생|엄마|아빠|어머니|아버지|부모님?|아내|남편|딸|아들|아이|친구|동료|상사|할머니"
    r"|할아버지|이모|삼촌|고모"
    r"|사촌|조카|여자친구|남자친구|애인|사장|대표|팀장|선생님?|교수님?|씨|님|배우자|룸메이트|손자|손녀|장모|장인"
    r"|시어머니|며느리|사위)$"
)


def _is_somebody(words: list[str]) -> bool:
    return _PEOPLE.search(words[-1]) is not None


def _single_values(owner: str, rest: str, text: str) -> Iterator[Claim]:
    for name, pattern in (
        ("residence", _RESIDENCE), ("residence", _MOVED), ("employer", _EMPLOYER), ("occupation", _OCCUPATION),
        ("plan", _PLAN),
    ):  # fmt: skip
        if match := pattern.search(rest):
            yield Claim(f"{owner}|{name}", _value(match["value"]))
    if match := _AGE.search(rest):
        yield Claim(f"{owner}|age", value_of([match["value"]]))
    for state, pattern in _MARRIED:
        if pattern.search(rest):
            yield Claim(f"{owner}|marital", value_of([state]))
            break
    if match := _ATTRIBUTE.match(text) or _CHANGE_OF.match(text):
        about = [re.sub(r"(?:의|가|이|은|는|을|를)$", "", word) for word in match["about"].split() if word not in _USER]
        about = [word for word in about if word and word not in _USER]
        value = _value(match["value"])
        if 0 < len(value) <= 8:
            yield Claim(f"user|{' '.join(sorted([*about, _CANONICAL.get(match['head'], match['head'])]))}", value)


_CANONICAL = {
    "마감": "마감일", "기한": "마감일", "납기": "마감일", "성함": "이름", "연락처": "전화번호", "번호": "전화번호",
    "휴대폰": "전화번호",
    "메일": "이메일", "체중": "몸무게", "치수": "사이즈", "색상": "색", "미팅": "회의", "급여": "월급", "직장": "회사",
    "등급": "요금제", "플랜": "요금제",
}  # fmt: skip


def _polarity(owner: str, rest: str, *, negated: bool) -> Iterator[Claim]:
    """That something is so, or that it isn't."""
    sign = value_of(["no" if negated else "yes"])
    if _SUPERLATIVE not in rest and (match := _AFFINITY.match(rest)):
        words = [strip_particles(word) for word in _WORD.findall(match["object"])]
        yield Claim(f"{owner}|takes to {' '.join(sorted(words))}", sign)
    if match := _HAS.match(rest) or _STATE.match(rest):
        words = [strip_particles(word) for word in _WORD.findall(match["what"])]
        yield Claim(f"{owner}|is {' '.join(sorted(words))}", sign)


def _value(text: str) -> frozenset[str]:
    words = [word.rstrip(".:/-") for word in _WORD.findall(text)]
    return value_of(_bare(word) for word in words if word not in _USER)


def _bare(word: str) -> str:
    shorter = _ENDING.sub("", word)
    return shorter if len(shorter) > _LEAST_STEM else word
