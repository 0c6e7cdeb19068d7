"""Korean sentences as clauses, and clauses as words with their roles, and values."""

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from arc_common.memory.long_term.claims_kinds import KIND_OF_WORD, NUMBER_WORDS, amount, clock
from arc_common.memory.long_term.claims_korean_words import ADVERBS, USER

__all__ = ["Word", "bare", "clauses_of", "stem_of_verb", "words_of"]


@dataclass(frozen=True, slots=True)
class Word:
    """A word, or a value of several words.

    Args:
        text: As it stands.
        base: Without what stands behind it.
        role: What that says: "topic", "subject", "object", "at", "to", "also", "with", "of", "than", or nothing.
        value: For a value its kind and what it is ("clock=9:00").
    """

    text: str
    base: str
    role: str = ""
    value: str = ""


_SPEAKER = re.compile(r"^(?:user|assistant|사용자|어시스턴트)\s*:\s*")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_BREAK = re.compile(
    r"[,;()]\s*|(?<=[가-힣](?:지만|니까))\s|(?<=[가-힣](?:는데|은데|했고|면서))\s|(?<=[가-힣]서)(?<![에문도부순독약청]서)\s"
    r"|(?<=[가-힣]고)(?<!(?:창|광|최|사|재|참|보|신|중|금|장|여)고)\s(?!있|싶|나서|계|다니|해요|해$|했)"
)
_ROLES = (
    ("topic", "은|는"),
    ("subject", "께서|이|가"),
    ("object", "을|를"),
    ("at", "에서는|에는|에서|에게|한테|에"),
    ("to", "으로는|로는|으로|로"),
    ("also", "에서도|에도|도"),
    ("with", "이랑|랑|하고|와|과"),
    ("of", "의"),
    ("until", "까지"),
    ("than", "보다는|보다"),
    ("", "마다|부터|만|씩|쯤|정도|처럼"),
)
_PARTICLE = re.compile("(?:" + "|".join(f"(?P<r{place}>{forms})" for place, (_, forms) in enumerate(_ROLES)) + ")$")
_TENS = {
    "열": 10,
    "스물": 20,
    "스무": 20,
    "서른": 30,
    "마흔": 40,
    "쉰": 50,
    "예순": 60,
    "일흔": 70,
    "여든": 80,
    "아흔": 90,
}
_ONES = "하나|한|둘|두|셋|세|석|넷|네|넉|다섯|여섯|일곱|여덟|아홉"
_NATIVE = rf"(?:{'|'.join(_TENS)})(?:{_ONES})?|{_ONES}"
_COUNTERS = (
    "개월|시간|학년|인분|킬로그램|킬로미터|킬로|기가바이트|기가|테라바이트|테라|센티미터|센티|퍼센트|프로|달러|유로|그램|미터|파운드"
    "|살|세|명|마리|개|대|채|권|벌|잔|알|병|번|회|층|박|분|일|주|달|년|원|평|곡|장|호|점|급|쪽|차|기|갑|킬|kg|km|cm|mg|ml|gb|tb|g|m|%"
)
_SCALE = {"천": 1e3, "만": 1e4, "백만": 1e6, "천만": 1e7, "억": 1e8, "백": 100, "": 1}
_TAIL = r"(?P<tail>[가-힣]{0,6})(?=[\s,.!]|$)"
_VALUE = re.compile(
    rf"""(?<![\w])(?:
    (?P<code>\d+(?:-\d+)+)
    | (?P<half>오전|오후|새벽|아침|저녁|밤|낮)?\s?(?P<hour>\d{{1,2}}|{_NATIVE})\s?시(?!간)
        (?:\s?(?P<thirty>반)|\s?(?P<minute>\d{{1,2}})분)?
    | (?P<noon>정오|자정)
    | (?P<year>(?:19|20)\d\d)년
    | (?P<month>\d{{1,2}})월(?:\s?(?P<day>\d{{1,2}})일)?
    | (?P<number>\d+(?:\.\d+)?)\s?(?P<scale>천만|백만|천|만|억)?\s?(?P<unit>{_COUNTERS})?
    | (?P<native>{_NATIVE})\s?(?P<unit2>{_COUNTERS})
    | (?P<per>하루|일주일|한\s?달|일\s?년|매일|매주|매달|매월|매년|분당|시간당|주|월)(?=에?\s)
    ){_TAIL}""",
    re.VERBOSE,
)
_PER = {"하루": "day", "매일": "day", "일주일": "week", "매주": "week", "주": "week", "한달": "month", "매달": "month",
        "매월": "month", "월": "month", "일년": "year", "매년": "year", "분당": "minute", "시간당": "hour"}  # fmt: skip
_TAIL_FORM = re.compile(
    r"(?:마다|까지|부터|정도|쯤|씩|째|대|짜리)?(?:이에요|예요|에요|입니다|이다|이야|이고|임|야|다|이세요|세요|인데|로|으로|에|에서|에는|은|는|이|가|을|를|도|의|까지|부터)?$"
)


def clauses_of(sentence: str) -> list[str]:
    """The clauses of a sentence, in one form of their characters, folded."""
    text = unicodedata.normalize("NFKC", sentence).casefold()
    text = _THOUSANDS.sub("", _SPEAKER.sub("", " ".join(text.split()))).strip(" .!;,~")
    return [part.strip() for part in _BREAK.split(text) if part and part.strip()]


def words_of(clause: str) -> list[Word]:
    """The words and values of a clause, in order."""
    words: list[Word] = []
    start = 0
    for match in _VALUE.finditer(clause):
        if not _TAIL_FORM.match(match["tail"]) or not (found := _value(match)):
            continue
        words += [_word(text) for text in clause[start : match.start()].split()]
        particle = _PARTICLE.search(match["tail"])
        role = _ROLES[int((particle.lastgroup or "r10")[1:])][0] if particle else ""
        words += [Word(match[0], "", role, value) for value in found]
        start = match.end()
    return words + [_word(text) for text in clause[start:].split()]


def _value(match: re.Match[str]) -> list[str]:
    if match["code"]:
        return [f"code={match['code']}"]
    if match["hour"]:
        hour = _number(match["hour"])
        half = match["half"] or ""
        if half == "밤" and hour == 12:
            hour, half = 0, "새벽"
        kind = "" if not half else "am" if half in ("오전", "새벽", "아침") else "pm"
        return [clock(int(hour), 30 if match["thirty"] else int(match["minute"] or 0), kind)]
    if match["noon"]:
        return [clock(12, 0, "pm" if match["noon"] == "정오" else "am")]
    if match["year"]:
        return [f"date=year {match['year']}"]
    if match["month"]:
        return [f"date={int(match['month'])}", *([f"date=day {int(match['day'])}"] if match["day"] else [])]
    if match["unit"] in ("번", "회") or match["unit2"] in ("번", "회"):
        return [f"often={_number(match['number'] or match['native']):g} times"]
    if match["number"]:
        return [amount(float(match["number"]) * _SCALE[match["scale"] or ""], match["unit"] or "")]
    if match["native"]:
        return [amount(_number(match["native"]), match["unit2"])]
    return [f"often=per {_PER[match['per'].replace(' ', '')]}"]


def _number(text: str) -> float:
    if text[0].isdigit():
        return float(text)
    tens = next((word for word in _TENS if text.startswith(word)), "")
    ones = text[len(tens) :]
    return _TENS.get(tens, 0) + NUMBER_WORDS.get(ones, 0)


def _word(text: str) -> Word:
    text = text.strip(".!?~\"'")
    if text in USER or text in ADVERBS:
        return Word(text, "", "topic" if text.endswith(("는", "은")) and text in USER else "")
    base, role = _role(text)
    if base in USER or base in ADVERBS:
        return Word(text, "", role if base in USER else "")
    value = KIND_OF_WORD.get(base) or KIND_OF_WORD.get(text.removesuffix("요"), "")
    return Word(text, bare(text), role, value)


def _role(text: str) -> tuple[str, str]:
    """A word without its last particle, and what that says."""
    match = _PARTICLE.search(text)
    if match is None or match.start() == 0:
        return text, ""
    if match.start() == 1 and text[0] not in "형딸" and match[0] in ("이", "가", "로", "도", "과", "의", "만", "와"):
        return text, ""
    place = int((match.lastgroup or "r10")[1:])
    return text[: match.start()], _ROLES[place][0]


_SITE = re.compile(r"(?<=휴가|여행|출장|목적|도착|출발|행선)지$")


@lru_cache(4096)
def bare(text: str) -> str:
    """A word without particles, and without what looks like one, so that all its forms are one."""
    for _ in range(4):
        text = _SITE.sub("", text)
        shorter, _role_of = _role(text)
        if shorter == text or (len(shorter) < 2 and not _role_of):
            break
        if len(shorter) < 2 and text[-1] in "이가도로":
            break
        text = shorter
    return text


_ROUNDED: dict[str, str] = {"ㅘ": "ㅗ", "ㅝ": "ㅜ", "ㅕ": "ㅣ", "ㅐ": "ㅐ", "ㅙ": "ㅚ"}
_SHORT = str.maketrans("써꺼커떠해했한할합함돼됐된될됩", "쓰끄크뜨하하하하하하되되되되되")
_FIRST = "ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ"
_MIDDLE = "ㅏㅐㅑㅒㅓㅔㅕㅖㅗㅘㅙㅚㅛㅜㅝㅞㅟㅠㅡㅢㅣ"


@lru_cache(4096)
def stem_of_verb(text: str) -> str:
    """How a verb begins in all its forms: the first consonant and the vowel that it has without an ending."""
    if not text or not "가" <= text[0] <= "힣":
        return text
    number = ord(text.translate(_SHORT)[0]) - 0xAC00
    vowel = _MIDDLE[number % 588 // 28]
    return _FIRST[number // 588] + _ROUNDED.get(vowel, vowel)
