"""What English statements claim about things that have one value at a time."""

import re
from collections.abc import Iterator
from functools import lru_cache

from arc_common.memory.rules.claims import Claim, plain, value_of
from arc_common.text import analyze

__all__ = ["claims_of", "is_negated"]

_NEGATION = re.compile(
    r"\b(?:not|no longer|never|none|stopped|quit|quits|gave up|given up|without|hates?|dislikes?|avoids?"
    r"|can't|cannot|couldn't|don't|doesn't|didn't|isn't|aren't|wasn't|weren't|won't|wouldn't|hasn't|haven't)\b"
)

_SPEAKER = re.compile(r"^(?:user|assistant)\s*:\s*")
_USER = frozenset(
    [
        "i",
        "me",
        "my",
        "mine",
        "user",
        "users",
        "user's",
        "the",
        "he",
        "she",
        "they",
        "we",
        "our",
        "his",
        "her",
        "their",
        "them",
        "us",
    ]
)
_SUBJECT = r"(?P<subject>[^,;]{0,60}?)"
_FILLER = (
    r"(?:(?:just|now|currently|still|also|recently|has|have|had|is|are|was|been|i'm|i've|to|really"
    r"|actually|already)\s)*"
)
_STOP = (
    r"(?=$|[,;(]|\s(?:now|currently|since|with|because|and|but|for|at the moment|these days|as of|last|this|next|after"
    r"|before|any ?more|instead|from|again|where|which|who|while|today|yesterday|as an?|in order|starting)\b)"
)

_RESIDENCE = re.compile(
    rf"^{_SUBJECT}\b(?:lives?|living|resides?|residing|is based|am based|'m based)\s(?:now\s|currently\s)?(?:in"
    rf"|at|near)\s"
    rf"(?P<value>.{{2,60}}?){_STOP}"
)
_MOVED = re.compile(
    rf"^{_SUBJECT}\b(?:moved|relocated|moving|has moved|have moved)\s(?:away\s|house\s"
    rf"|back\s)?(?:from\s.{{2,40}}?\s)?to\s"
    rf"(?P<value>.{{2,60}}?){_STOP}"
)
_EMPLOYER = re.compile(
    rf"^{_SUBJECT}\b(?:works?|working|employed|got a job|took a job|started a job|started working|joined|started)\s"
    rf"(?:full[- ]time\s|part[- ]time\s|now\s)?(?P<how>(?:as an?\s[\w -]{{2,40}}?\s)?(?:at|for|by|with)\s)?"
    rf"(?P<value>.{{2,60}}?){_STOP}"
)
_OCCUPATION = re.compile(rf"^{_SUBJECT}\b(?:works?|working|employed)\s(?:now\s)?as an?\s(?P<value>.{{2,60}}?){_STOP}")
_AGE = re.compile(
    rf"^{_SUBJECT}\b(?:is|am|'m|turned|turns|just turned)\s(?:now\s)?(?P<value>\d{{1,3}})(?:\s(?:years?"
    rf"|yrs?)\s?(?:of age|old)?|-years?-old)?"
    r"(?:\s(?:now|today|this year|last \w+|yesterday|in \w+))?$"
)
_MARRIED = re.compile(
    rf"^{_SUBJECT}\b(?:is|am|'m|are|got|gets|became|has|recently|just|now)\s(?:now\s|recently\s|just\s|got\s"
    rf"|gotten\s|been\s)?"
    r"(?P<value>single|unmarried|married|engaged|divorced|separated|widowed|widower|widow)\b(?! to the| room| bed)"
)
_PLAN = re.compile(
    rf"^{_SUBJECT}\b(?:is on|am on|'m on|are on|uses?|has|have|chose|upgraded to|upgraded .{{2,30}} to"
    rf"|downgraded to|switched to|subscribes? to|subscribed to|moved to"
    r"|changed to)\s(?:the\s|an?\s|their\s|my\s|our\s)?(?P<value>[\w' -]{2,40}?)\s(?P<what>plan|tier"
    r"|subscription|membership)\b"
)
_SINGLE = (
    r"name|nickname|surname|last name|first name|age|budget|deadline|due date|phone|phone number|number|mobile|cell"
    r"|e-mail|email|e-mail address|email address|mail|address|birthday|date of birth|birth date|job|job title|title"
    r"|occupation|profession|employer|company|workplace|position|role|salary|income|rent|weight|height|size"
    r"|shoe size|password|pin|username|plan|tier|subscription|time ?zone|nationality|citizenship|currency|blood type"
    r"|goal|limit|price|cost|boss|manager|supervisor|doctor|dentist|wife|husband|spouse|partner|girlfriend|boyfriend"
    r"|meeting|appointment|interview|flight|train|exam|reservation|wedding|party|class|check-?in|check-?out|departure"
    r"|arrival|start date|end date|launch|launch date|release date|move-in date|language|hometown|city|capital|ceo"
    r"|destination|target|quota|headcount|status|contact|license plate|room|seat|version|color|colour|team"
)
_CHANGED = (
    r"(?:is|are|was changed to|was moved to|was moved up to|was pushed (?:back )?to|was postponed to|was extended to"
    r"|was raised to|was increased to|was reduced to|was cut to|was lowered to|was set to|has been \w+(?: back"
    r"| up)? to|has changed to|changed to"
    r"|moved to|went up to|went down to|rose to|dropped to|increased to|decreased to|is now|will be|became)"
)
_ATTRIBUTE = re.compile(
    rf"^(?P<owner>(?:the\s)?(?:user's\s|my\s|our\s|their\s|his\s|her\s|[\w' ]{{2,30}}?'s\s|the\s)?)"
    rf"(?P<modifier>(?:[\w-]+\s){{0,3}}?)(?P<head>(?:favou?rite|preferred)\s[\w -]{{2,30}}?|{_SINGLE})"
    rf"(?:\s(?:of|for)\s(?P<of>[\w' -]{{2,40}}?))?\s(?P<verb>{_CHANGED}|is now|starts at|starts on|starts"
    rf"|leaves at|begins at|departs at)\s"
    rf"(?:now\s|about\s|around\s|currently\s|at\s|on\s|in\s|called\s|scheduled for\s|set for\s|for\s"
    rf"|by\s)*(?P<value>.{{1,80}}?){_STOP}"
)
_CHANGE_OF = re.compile(
    rf"^{_SUBJECT}\b(?:changed|moved|raised|increased|lowered|reduced|cut|extended|postponed|pushed|updated|set"
    rf"|switched)\s"
    rf"(?:the|my|their|his|her|our|its)\s(?P<modifier>(?:[\w-]+\s){{0,3}}?)(?P<head>{_SINGLE})\s(?:back\s"
    rf"|up\s)?(?:from\s.{{1,40}}?\s)?(?:to|at)\s"
    rf"(?P<value>.{{1,80}}?){_STOP}"
)
_PREFERENCE = re.compile(
    rf"^{_SUBJECT}\b(?:prefers?|wants|would like|likes|chose|switched to|uses)\s(?:to use\s|to have\s|the\s"
    rf"|an?\s|having\s|using\s)*"
    r"(?P<value>dark|light|aisle|window|metric|imperial|celsius|fahrenheit|short|brief|concise|long|detailed|formal"
    r"|informal|casual|morning|evening|hot|iced|cold|vegetarian|paper|digital|remote|on-?site|hybrid)\s"
    r"(?P<head>[\w-]+)\b(?P<rest>.{0,60})$"
)
_OPPOSITES = (
    {"dark", "light"}, {"aisle", "window"}, {"metric", "imperial"}, {"celsius", "fahrenheit"}, {"formal", "informal"},
    {"hot", "iced"}, {"paper", "digital"},
)  # fmt: skip
_CANONICAL = {
    "brief": "short", "concise": "short", "detailed": "long", "casual": "informal", "cold": "iced",
    "on-site": "onsite", "colour": "color", "favourite": "favorite", "preferred": "favorite", "email": "e-mail",
    "mail": "e-mail", "mobile": "phone", "cell": "phone", "surname": "last name", "due date": "deadline",
}  # fmt: skip

_AFFINITY = re.compile(
    rf"^{_SUBJECT}\b(?P<verb>(?:{_FILLER})(?:(?:do|does|did|can|could|would|will)(?:n't|\snot)\s|(?:is|am"
    rf"|are)(?:n't|\snot)\s|cannot\s|can't\s|won't\s|no longer\s"
    r"|never\s|not\s|really\s|any longer\s)*"
    r"(?:likes?|loves?|enjoys?|adores?|prefers?|drinks?|eats?|uses?|plays?|watch(?:es)?|wants?|needs?|takes?|"
    r"(?:is|am|are) (?:a (?:big |huge )?fan of|fond of|into|keen on|interested in)|dislikes?|hates?|avoids?|can't stand"
    r"|(?:has |have )?(?:stopped|quit|gave up|given up)(?:\s(?:liking|drinking|eating|using|playing|watching"
    r"|taking|wanting))?"
    r"|(?:has |have )?(?:started|resumed|took up)(?:\s(?:liking|drinking|eating|using|playing|watching|taking))))\s"
    r"(?:to\s(?:drink|eat|use|play|watch|have)\s|drinking\s|eating\s|using\s|playing\s|watching\s|having\s|the\s"
    r"|an?\s|any\s)*(?P<object>.{2,60}?)"
    r"(?P<more>\s(?:any ?more|any longer|at all|these days|now|again))?$"
)
_TIMES = re.compile(
    r"\b(?:any ?more|any longer|no longer|now|currently|at all|these days|again|still|already|recently|just|ever)\b"
)
_PAST = re.compile(
    r"\b(?:used to|once|ago|formerly|previously|in (?:19|20)\d\d|as a child|growing up|when (?:he|she|they|i) was)\b"
)
_POLARITY_WORDS = re.compile(
    r"\b(?:not|no|never|do|does|did|don't|doesn't|didn't|isn't|aren't|is|am|are|was|the|an?|of|to|be|been|has|have|had"
    r"|hasn't|haven't|can|can't|cannot|will|won't|stopped|quit|gave|given|up|any|user|user's|i|i'm|i've|my|he|she|they"
    r"|his|her|their|started|resumed|being)\b"
)
_WORD = re.compile(r"[a-z0-9][\w@.+:/-]*")
_STOP_WORDS = frozenset(
    [
        "the",
        "a",
        "an",
        "of",
        "on",
        "in",
        "at",
        "to",
        "for",
        "by",
        "is",
        "are",
        "my",
        "our",
        "their",
        "his",
        "her",
        "its",
        "user",
        "user's",
        "about",
        "around",
        "exactly",
        "about",
        "with",
        "and",
    ]
)
_NUMBER_WORDS = {
    word: str(number)
    for number, word in enumerate(
        ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
    )
}


def is_negated(text: str) -> bool:
    """Whether the text denies something."""
    return _NEGATION.search(plain(text)) is not None


def claims_of(sentence: str) -> Iterator[Claim]:
    """What an English sentence claims."""
    text = _SPEAKER.sub("", plain(sentence))
    if _PAST.search(text):
        return
    negated = _NEGATION.search(text) is not None
    if not negated:
        yield from _single_values(text)
    yield from _polarity(text, negated=negated)


def _single_values(text: str) -> Iterator[Claim]:
    for name, pattern in (("residence", _RESIDENCE), ("residence", _MOVED)):
        if (match := pattern.match(text)) and name == "residence" and not _is_thing(match["subject"]):
            yield Claim(f"{_owner(match['subject'])}|residence", _value(match["value"]))
    if (match := _EMPLOYER.match(text)) and (match["how"] or re.search(r"\bjoined\s", match[0])):
        value = _value(match["value"])
        if not value & {"home", "night", "nights", "club", "gym"}:
            yield Claim(f"{_owner(match['subject'])}|employer", value)
    if match := _OCCUPATION.match(text):
        yield Claim(f"{_owner(match['subject'])}|occupation", _value(re.split(r"\s(?:at|for|in)\s", match["value"])[0]))
    if match := _AGE.match(text):
        yield Claim(f"{_owner(match['subject'])}|age", value_of([match["value"]]))
    if match := _MARRIED.match(text):
        state = {"unmarried": "single", "widower": "widowed", "widow": "widowed"}.get(match["value"], match["value"])
        yield Claim(f"{_owner(match['subject'])}|marital", value_of([state]))
    if match := _PLAN.match(text):
        yield Claim(f"{_owner(match['subject'])}|plan", _value(match["value"]))
    if match := _ATTRIBUTE.match(text):
        yield from _attribute(match["owner"], match["modifier"], match["head"], match["of"] or "", match["value"])
    elif match := _CHANGE_OF.match(text):
        yield from _attribute("", match["modifier"], match["head"], "", match["value"])
    if match := _PREFERENCE.match(text):
        word = _CANONICAL.get(match["value"], match["value"])
        rest = " ".join(sorted(_value(match["rest"])))
        yield Claim(f"{_owner(match['subject'])}|kind of {_stem(match['head'])} {rest}", value_of([word]))


def _attribute(owner: str, modifier: str, head: str, of: str, value: str) -> Iterator[Claim]:
    words = [_CANONICAL.get(word, word) for word in f"{modifier} {_CANONICAL.get(head, head)} {of}".split()]
    about = sorted({_stem(word) for word in words if word not in _STOP_WORDS and word not in _USER})
    found = _value(value)
    if found and (len(found) <= 8):
        yield Claim(f"{_owner(owner)}|{' '.join(about)}", found)


def _polarity(text: str, *, negated: bool) -> Iterator[Claim]:
    """That something is so, or that it isn't: a slot of the statement's own words."""
    sign = value_of(["no" if negated else "yes"])
    if match := _AFFINITY.match(text):
        words = _stems(match["object"])
        if words:
            yield Claim(f"{_owner(match['subject'])}|takes to {' '.join(sorted(words))}", sign)
    rest = _POLARITY_WORDS.sub(" ", _TIMES.sub(" ", text))
    words = _stems(rest)
    if 0 < len(words) <= 8:
        yield Claim(f"says {' '.join(sorted(words))}", sign)


def _is_thing(subject: str) -> bool:
    """Whether what moves is an appointment rather than somebody."""
    return re.search(rf"\b(?:{_SINGLE})\s*(?:was|has been|is|got|has)?\s*$", subject.strip()) is not None


def _owner(subject: str) -> str:
    """Whose: "user" for all who can be the user, else the words that name somebody else."""
    words = [word for word in re.findall(r"[\w'-]+", subject) if word not in _USER]
    words = [re.sub(r"'s?$", "", word) for word in words if word not in _SUBJECT_FILLER]
    return " ".join(words) or "user"


_SUBJECT_FILLER = frozenset(
    [
        "now",
        "just",
        "currently",
        "still",
        "also",
        "recently",
        "has",
        "have",
        "had",
        "is",
        "are",
        "am",
        "was",
        "were",
        "been",
        "i'm",
        "i've",
        "he's",
        "she's",
        "they've",
        "they're",
        "to",
        "really",
        "actually",
        "already",
        "will",
        "would",
        "says",
        "said",
        "that",
        "and",
        "then",
        "later",
        "finally",
        "officially",
        "since",
        "has's",
        "user's",
        "works",
        "says",
        "does",
        "do",
    ]
)


def _value(text: str) -> frozenset[str]:
    words = (_CANONICAL.get(word, word) for word in (found.rstrip(".:/-") for found in _WORD.findall(text)))
    return value_of(_NUMBER_WORDS.get(word, word) for word in words if word not in _STOP_WORDS)


def _stems(text: str) -> list[str]:
    return [_stem(word.rstrip(".:/-")) for word in _WORD.findall(text) if word not in _STOP_WORDS]


@lru_cache(4096)
def _stem(word: str) -> str:
    return "".join(analyze(_CANONICAL.get(word, word)))
