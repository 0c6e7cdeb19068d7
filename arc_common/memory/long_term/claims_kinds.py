"""Kinds of values of which a thing has one: amounts, times, dates, and words that exclude each other. Pure."""

import re
from collections.abc import Iterable

from arc_common.text.languages.language import word_set

__all__ = [
    "COUNTRIES",
    "KIND_OF_WORD",
    "MOMENTS",
    "NUMBER_WORDS",
    "OF_THINGS",
    "ROUND",
    "STATUS",
    "UNITS",
    "WHEN",
    "amount",
    "are_near",
    "clock",
    "kind_of",
]

ROUND = 0.1
"""Two amounts that differ by no more than this share may be one, if either is said to be rough."""

_EXCLUSIVE = """
    weekday: monday/월요일 | tuesday/화요일 | wednesday/수요일 | thursday/목요일 | friday/금요일
        | saturday/토요일 | sunday/일요일 | weekday/평일 | weekend/주말
    daypart: morning/dawn/day/days/daytime/아침/오전/새벽/낮/아침형
        | evening/evenings/저녁/night/nights/밤/야간/저녁형/밤형 | afternoon/오후/점심
    season: spring/봄 | summer/여름 | autumn/fall/가을 | winter/겨울
    colour: white/흰색/하얀색/화이트/흰 | black/검은색/검정색/검정/블랙/검은 | red/빨간색/빨강/빨간
        | blue/파란색/파랑/파란 | green/초록색/녹색/초록 | yellow/노란색/노랑/노란 | grey/gray/회색 | brown/갈색
        | pink/분홍색/핑크 | purple/보라색/보라 | orange/주황색 | beige/베이지 | navy/남색/네이비
        | blond/blonde/금발 | silver/은색 | gold/금색 | turquoise | burgundy | teal | cream | maroon | ivory | khaki
    language: english/영어 | korean/한국어 | french/프랑스어/불어 | german/독일어 | spanish/스페인어
        | japanese/일본어 | chinese/중국어 | italian | portuguese | russian/러시아어 | dutch | polish | turkish
        | arabic | hindi | vietnamese/베트남어 | thai | mandarin | swedish | danish | greek
    transport: bus/buses/버스 | train/기차 | bike/bicycle/bikes/cycles/cycle/자전거 | car/drives/자가용/자동차
        | foot/walks/도보 | subway/metro/underground/지하철 | tram/전차 | taxi/택시 | ferry/배 | scooter/킥보드
        | plane/비행기 | motorbike/motorcycle/오토바이
    marital: single/unmarried/미혼/독신/싱글/솔로 | married/newlywed/기혼/결혼/유부남/유부녀 | divorced/이혼
        | widowed/widow/widower/사별 | engaged/약혼 | separated/별거
    employment: unemployed/jobless/백수/무직/실업자 | retired/은퇴 | employed/취직/취업/재직
    hours: full-time/fulltime/풀타임 | part-time/파트타임
    contract: permanent/정규직 | temporary/contractor/계약직/비정규직 | intern/인턴 | freelance/freelancer/프리랜서
    fuel: diesel/경유/경유차 | petrol/gasoline/휘발유/휘발유차 | electric/전기/전기차 | hybrid/하이브리드
    from where: remote/remotely/wfh/재택 | on-site/onsite/office/사무실
    hand: left-handed/왼손잡이 | right-handed/오른손잡이 | ambidextrous/양손잡이
    side: left/왼쪽 | right/오른쪽
    seat: window/창가 | aisle/통로/복도
    size: small/스몰/작은 | medium/미디엄 | large/라지/큰
    length: short/brief/concise/짧게/짧은/짧아 | long/detailed/길게/긴/길어/길다/자세히
    register: formal/존댓말 | informal/casual/반말
    temperature: hot/뜨거운/핫 | iced/cold/아이스/차가운
    medium: paper/종이 | digital/electronic/paperless/전자
    brightness: dark/다크 | light/라이트
    measure: metric/미터법 | imperial/야드파운드법
    degrees: celsius/섭씨 | fahrenheit/화씨
    gearbox: manual/수동 | automatic/오토/자동
    tenure: renter/tenant/월세 | jeonse/전세 | homeowner/자가
    turn: odd/홀수 | even/짝수
    being open: open/opened | closed/shut
    being locked: locked | unlocked
    condition: broken/고장 | fixed/repaired/수리
    health: sick/ill | healthy/건강 | recovered/healed/완치
    filling: empty | full
    payment: paid | unpaid | overdue
    access: private/비공개 | public/공개
    price: free/무료 | basic/베이직 | pro/프로 | premium/프리미엄 | enterprise | standard/스탠다드 | 유료
    cooking: rare | medium-rare | well-done
    skill: beginner/초급/초보 | intermediate/중급 | advanced/고급
    nature: introvert/introverted/내향적 | extrovert/extroverted/외향적
    approval: approved/accepted/승인/합격 | rejected/denied/declined/거절/불합격
    verdict: passed | failed
    beginning: pending | finished/completed/done/완료 | cancelled/canceled
    order: oldest/eldest/첫째 | middle/둘째 | youngest/막내
    material: wood/wooden/나무/목재 | metal/steel/철제/금속 | plastic/플라스틱 | glass/유리
        | stone | brick/벽돌 | leather/가죽
    spice: mild/순한맛 | spicy/매운맛
"""
"""Words that exclude each other, kind by kind: between bars a value, between strokes its words in both languages."""

_KIND = re.compile(r"^ {4}(?P<kind>[a-z ]+):(?P<values>(?:.+\n)(?: {8}.+\n)*)", re.MULTILINE)

KIND_OF_WORD = {
    word: f"{match['kind']}={words[0]}"
    for match in _KIND.finditer(_EXCLUSIVE)
    for words in (value.split("/") for value in "".join(match["values"].split()).split("|"))
    for word in words
}
KIND_OF_WORD |= {
    f"{day}s": value for day, value in KIND_OF_WORD.items() if value.startswith("weekday") and day.isascii()
}
KIND_OF_WORD |= {
    word: f"often=per {period}"
    for period, words in (
        ("day", "daily 매일"),
        ("week", "weekly 매주"),
        ("2 weeks", "biweekly fortnightly 격주"),
        ("month", "monthly 매달 매월"),
        ("quarter", "quarterly"),
        ("year", "yearly annually 매년"),
    )
    for word in words.split()
}
"""The token of a word that excludes others."""

NUMBER_WORDS = {
    word: float(number)
    for start, words in (
        (0, "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"),
        (17, "seventeen eighteen nineteen twenty"),
        (1, "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"),
        (1, "once twice"),
        (1, "하나 둘 셋 넷 다섯 여섯 일곱 여덟 아홉 열"),
        (1, "한 두 세 네"),
        (3, "석 넉"),
    )
    for number, word in enumerate(words.split(), start)
} | {"thirty": 30.0, "forty": 40.0, "fifty": 50.0, "sixty": 60.0, "hundred": 100.0, "half": 0.5}

OF_THINGS = frozenset({"weekday", "season", "daypart", "language", "colour", "transport"})
"""Kinds of values of which somebody has several, but a thing has one."""

STATUS = frozenset({"marital", "employment", "hand", "contract"})
"""Kinds of values that somebody has whatever else is said."""

MOMENTS = frozenset({"date", "weekday", "clock"})
WHEN = MOMENTS | {"daypart", "season", "amount", "amount-day", "amount-month", "often"}
"""Kinds of values that say when, how long and how much, and not what."""

COUNTRIES = word_set(
    """
    africa america argentina asia australia austria belgium brazil britain canada china denmark egypt england europ
    finland franc germani greec india indonesia ireland itali japan korea malaysia mexico netherland norway philippin
    poland portug russia scotland spain sweden switzerland taiwan thailand turkey uk ukrain usa vietnam wale
    한국 미국 영국 일본 중국 프랑스 독일 이탈리아 스페인 캐나다 호주 베트남 태국 대만 유럽 네덜란드 스위스 러시아 인도
    """
)
"""Stems of the names of countries: a place in one is no other place."""

UNITS: dict[str, tuple[str, float]] = {
    words: unit
    for listed, unit in (
        ("g gram grams 그램", ("g", 1)),
        ("kg kilo kilos kilogram kilograms 킬로 킬로그램", ("g", 1000)),
        ("mg milligram milligrams 밀리그램", ("g", 0.001)),
        ("lb lbs pound pounds 파운드", ("lb", 1)),
        ("m meter meters metre metres 미터", ("m", 1)),
        ("cm centimeter centimeters centimetres 센티 센티미터", ("m", 0.01)),
        ("km kilometer kilometers kilometre kilometres 킬로미터", ("m", 1000)),
        ("mile miles 마일", ("mile", 1)),
        ("minute minutes min mins 분", ("min", 1)),
        ("hour hours hr hrs h 시간", ("min", 60)),
        ("day days 일", ("day", 1)),
        ("week weeks 주", ("day", 7)),
        ("month months 개월 달", ("month", 1)),
        ("year years yr yrs years-old year-old 년", ("month", 12)),
        ("살 세", ("age", 1)),
        ("dollar dollars usd bucks 달러", ("usd", 1)),
        ("euro euros eur 유로", ("eur", 1)),
        ("won krw 원", ("krw", 1)),
        ("percent % 퍼센트 프로", ("%", 1)),
        ("gb gigabytes gig gigs 기가 기가바이트", ("gb", 1)),
        ("tb terabytes terabyte 테라 테라바이트", ("gb", 1024)),
        ("times time", ("times", 1)),
    )
    for words in listed.split()
}
_AMOUNT = re.compile(r"amount-(?P<unit>\S*)=(?P<rough>~?)(?P<number>[\d.]+)$")


def kind_of(token: str) -> str:
    """The kind of a token that is a value, and nothing for a plain word."""
    return token.split("=", 1)[0] if "=" in token else ""


def amount(number: float, unit: str = "", *, rough: bool = False) -> str:
    """The token of an amount, the same in every unit of its dimension."""
    dimension, factor = UNITS.get(unit, (unit, 1.0))
    return f"amount-{dimension}={'~' if rough else ''}{number * factor:.10g}"


def clock(hour: int, minute: int = 0, half: str = "") -> str:
    """The token of a time of day; without "am" or "pm" it may be either."""
    if half == "pm" and hour < 12:
        hour += 12
    elif half == "am" and hour == 12:
        hour = 0
    return f"clock={hour}:{minute:02}{'' if half or hour > 12 or hour == 0 else '?'}"


def are_near(one: Iterable[str], other: Iterable[str]) -> bool:
    """Whether two values may be one: amounts of which one is rough, times of which one lacks its half of the day."""
    (first, *more), (second, *others) = sorted(one), sorted(other)
    if more or others:
        return False
    if first.startswith("clock="):
        return ("?" in first or "?" in second) and _of_twelve(first) == _of_twelve(second)
    match, against = _AMOUNT.match(first), _AMOUNT.match(second)
    if match is None or against is None or match["unit"] != against["unit"]:
        return False
    if not (match["rough"] or against["rough"]):
        return False
    low, high = sorted((float(match["number"]), float(against["number"])))
    return high - low <= ROUND * high


def _of_twelve(token: str) -> tuple[int, str]:
    hour, minute = token[6:].rstrip("?").split(":")
    return int(hour) % 12, minute
