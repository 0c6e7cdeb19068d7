"""Follow-up questions: which ones depend on the conversation, and which words they leave out."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from arc_common.messages import Message, Role
from arc_common.text.analyzer import analyze, analyze_query
from arc_common.text.languages.language import word_set

_MAX_READ = 2_000
"""The most characters read of a question or a message."""

_HANGUL = re.compile(r"[가-힣]")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f]")
_WORD = re.compile(r"[^\s,;:!?…()\[\]{}<>\"“”„«»「」『』、。，！？；：]+")
_EDGES = ".'’‘-–—*_`~/"
_PROBE = "zyzzyva"

_OPENING = re.compile(
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
"""The beginnings of a question that continues another."""

_POINTER = re.compile(
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
"""Words that refer to something said before."""

_AT_HOME_BESIDE_A_NAME = frozenset(["he", "him", "his", "she", "her", "hers", "they", "them", "their", "theirs", "its"])
"""Pointers that usually refer to a name, if one precedes them in the question."""

_PREDICATE = (
    "true|possible|impossible|legal|illegal|necessary|safe|ok|okay|worth|better|best|hard|easy|common|normal|important"
)
_EXPLETIVE = re.compile(
    rf"""\b(?:is|was|isn['’]t|would|will)\ (?:be\ )?it\ (?:be\ )?(?:{_PREDICATE})\b
    | \bit\ (?:is|was|would\ be|will\ be)\ (?:{_PREDICATE})\b
    | \b(?:does|did|will|would)\ it\ (?:take|cost)\ to\b | \b(?:does|did|will|would)\ it\ (?:rain|snow)\b
    | \bit\ (?:takes?|costs?)\ (?:\w+\ )?to\b | \bwhat\ (?:time|day|date|year)\ is\ it\b
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""An expletive "it", which refers to nothing."""

_KOREAN_ELLIPSIS = re.compile(r"\s*\S+(?:\s+\S+)?[은는](?:요)?\s*[?？]*\s*")
"""A whole question that names its topic and asks nothing: "부산은요?"."""

_DEFINING = re.compile(
    r"\b(?:what(?:['’]s| is| are)|who(?:['’]s| is| are| was)|define|meaning of|explain)\b|뭐|뭔|무엇|누구|뜻|의미|란\b",
    re.IGNORECASE,
)
"""A question that needs only one topic word of its own."""

_DEFINITE = re.compile(r"\bthe\s+\w+", re.IGNORECASE)
"""Refers to something as known."""

_NAME = re.compile(r"(?<=[\s(\"'“])(?!I\b)[A-Z][\w'’-]*|\b\w*[0-9]\w*\b|\b[a-z]+[A-Z]\w*\b")
"""A word that looks like a name or a code; not the first of a sentence, which is always capitalised."""

_ASKING = word_set(
    "want need know think show explain find help look question answer mean thing things wonder wondering see recommend "
    "suggest compare describe list details detail example curious try sure okay ok also still 궁금해요 궁금합니다 "
    "궁금한데 싶어요 싶은데 싶습니다 알고 설명해줘 설명해주세요 추천해줘 추천해주세요 보여줘 보여주세요 "
    "찾아줘 찾아주세요 부탁해요 부탁드려요 대해 대해서 관해 관해서 관련 혹시 그럼 그러면 자세히 정도"
)
"""Question words and the like, which say nothing about the topic."""

_Kind = Literal["name", "code", "number", "word"]


@dataclass(frozen=True, slots=True)
class _Word:
    """A topic word: its terms, and whether it looks like a name, a code or a number."""

    text: str
    terms: frozenset[str]
    kind: _Kind


def is_standalone(question: str) -> bool:
    """Return whether a question states its own topic."""
    text = question[:_MAX_READ].strip()
    if not _topic_terms(text) or _OPENING.match(text) or _points_back(text):
        return False
    if _UNSPACED.search(text):
        return True
    own = sum(1 for _ in _topic_words_of(text))
    if _HANGUL.search(text):
        return not _KOREAN_ELLIPSIS.fullmatch(text) and (own > 1 or (own == 1 and _DEFINING.search(text) is not None))
    return own > 1 or (own == 1 and _DEFINING.search(text) is not None and _DEFINITE.search(text) is None)


def topic_words(question: str, history: Sequence[Message], *, max_words: int = 8) -> list[str]:
    """Return the words that a follow-up question leaves out, as written, in conversation order."""
    known = set(analyze(question[:_MAX_READ]))
    replaced = _replaced_kinds(question[:_MAX_READ])
    chosen: list[tuple[int, int, str]] = []
    for place, text, is_answer in _sources(history):
        words = []
        for rank, word in enumerate(_topic_words_of(text)):
            if word.terms <= known or word.kind in replaced or (is_answer and word.kind in ("word", "number")):
                continue
            known |= word.terms
            words.append((place, rank, word.text))
        room = max_words - len(chosen)
        chosen += words[-room:] if room > 0 else []
    return [word for _, _, word in sorted(chosen)]


def last_turns(history: Sequence[Message], max_turns: int) -> list[Message]:
    """Return the user's and assistant's messages of the last turns, oldest first."""
    said = [message for message in history if message.role in (Role.USER, Role.ASSISTANT) and message.text.strip()]
    starts = [place for place, message in enumerate(said) if message.role is Role.USER]
    if max_turns < 1 or not said:
        return []
    return said[starts[-max_turns] :] if len(starts) >= max_turns else said


def _sources(history: Sequence[Message]) -> Iterator[tuple[int, str, bool]]:
    """Yield the texts to search for topics, most likely first: place, text, and whether it is an answer."""
    asked = [(place, message.text[:_MAX_READ]) for place, message in enumerate(history) if message.role is Role.USER]
    for place, text in reversed(asked):
        yield place, text, False
        if is_standalone(text):
            break
    for place in reversed(range(len(history))):
        if history[place].role is Role.ASSISTANT and history[place].text.strip():
            yield place, history[place].text[:_MAX_READ], True
            break


def _points_back(text: str) -> bool:
    without_expletives = _EXPLETIVE.sub(" ", text)
    return any(
        pointer[0].lower() not in _AT_HOME_BESIDE_A_NAME or _NAME.search(without_expletives, 0, pointer.start()) is None
        for pointer in _POINTER.finditer(without_expletives)
    )


def _replaced_kinds(question: str) -> set[str]:
    """Return the kinds of words that a question replaces when it only names another thing."""
    kinds: set[str] = {word.kind for word in _topic_words_of(question)}
    return set() if "word" in kinds else kinds


def _topic_words_of(text: str) -> Iterator[_Word]:
    for match in _WORD.finditer(text):
        word = match[0].strip(_EDGES)
        if not word or word.lower() in _ASKING:
            continue
        terms = _topic_terms(word)
        coded = [term for term in terms if any(map(str.isdigit, term))]  # a code with a particle is the same code
        if terms:
            before = text[: match.start()].rstrip().rstrip("\"'“(")
            is_first = not before or before[-1] in ".!?\n"
            yield _Word(word, frozenset(coded or terms), _kind(word, is_first=is_first))


def _kind(word: str, *, is_first: bool) -> _Kind:
    if any(map(str.isdigit, word)):
        return "code" if any(character.isalpha() and character.isascii() for character in word) else "number"
    is_name = any(map(str.isupper, word[1:])) or (word[0].isupper() and not is_first)
    return "name" if is_name else "word"


def _topic_terms(text: str) -> list[str]:
    """Return the terms of a text without stop words, even if none remain (the analyzer would keep all)."""
    return [term for term in analyze_query(f"{text} {_PROBE}") if term != _PROBE]
