"""Compares a new memory with a scope's memories: which say the same, and which it contradicts."""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import combinations

from rapidfuzz import fuzz, process
from rapidfuzz.distance import Indel, Levenshtein

from arc_common.caches import cached_text
from arc_common.memories import Memory, MemoryStatus
from arc_common.memory.long_term.contradictions import Contradictions, Reading, conflict, is_negated, readings_of
from arc_common.protocols.records import RecordUpdates
from arc_common.text import analyze
from arc_common.text.analyzer import is_common
from arc_common.text.languages.english import ENGLISH
from arc_common.text.languages.korean import strip_particles
from arc_common.text.languages.language import word_set
from arc_common.text.languages.registry import LANGUAGES, detect

_MOST_SIMILAR = 5
_MOST_ASKED = 32
"""The most memories that a detector checks: those that share the most words with the new one."""

_STATUSES = (MemoryStatus.ACTIVE, MemoryStatus.PENDING, MemoryStatus.REJECTED)

_TOKEN = re.compile(r"(?<![^\s(])[-−]\d+(?:[.,:/-]\d+)*|\d+(?:[.,:/-]\d+)*|[^\W_]+(?:['’][^\W_]+)?[+#]*|[$€£¥₩%°]")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3})")
_NAME = re.compile(r"(?<=[^\s.!?:;] )(?!I['’])[A-ZÀ-ÖØ-ÞĀ-Ž][\w&-]+")
_FIRST_NAME = re.compile(r"\W{0,8}([A-ZÀ-ÖØ-ÞĀ-Ž][\w&-]+)")
_OTHER_SCRIPT = re.compile(r"[^\W\d_A-Za-z\u00aa-\u024f]")
_SPELLINGS = ((re.compile("(?<=[a-z]{2})our"), "or"), (re.compile("(?<=[a-z]{2})is(?=e|ing|ation)"), "iz"))
_LIGHT = word_set("the a an also really very")
_SUBJECT = frozenset().union(*(language.speaker for language in LANGUAGES))
_BE = word_set("is are am be")
_LEADS_ON = word_set("of in at for by to")
_DIRECTED = frozenset().union(*(language.directed for language in LANGUAGES))

_SYNONYMS = {word: first for language in LANGUAGES for word, first in language.phrasings.items()}

_SAME_FRAME = 1 / 3
"""Two statements that share at least this part of their words in order must also pass the word comparison: with
all-MiniLM-L6-v2 the cosine of "prefers tea to coffee" and "prefers coffee to tea" is .998."""


def folded(text: str) -> str:
    """Return the text without case, repeated whitespace and final full stops, for comparison."""
    return " ".join(text.casefold().split()).rstrip(" .!。")


def may_be_the_same(one: str, other: str, *, by_meaning: bool = False) -> bool:
    """Return whether two similar texts may say the same."""
    if is_negated(one) != is_negated(other):
        return False
    names = _names(one) | _names(other) | _opening_names(one, other)
    ours, theirs = _tokens(one), _tokens(other)
    kinds = detect(one).dates
    values, others = ([word for word in words if _is_value(word, names, kinds)] for words in (ours, theirs))
    if values != others:
        return False
    if by_meaning:
        ours, theirs = _phrased(ours), _phrased(theirs)
        is_rephrased = Indel.normalized_similarity(ours, theirs) < _SAME_FRAME
        if is_rephrased and not _OTHER_SCRIPT.search(one + other):
            return True
    short, long = sorted((ours, theirs), key=lambda words: (len(words), words))
    return long[: len(short)] == short or (by_meaning and _is_turned(short, long))


def _is_turned(short: Sequence[str], long: Sequence[str]) -> bool:
    """Return whether one text says the same as the other in other word forms and another order."""
    if short[:1] != long[:1] or any(word in _DIRECTED for word in (*short, *long)):
        return False
    ours, theirs = (Counter(_stem(word) for word in words if word not in _LEADS_ON) for words in (short, long))
    return ours <= theirs


def _stem(word: str) -> str:
    """Return a word's stem; past forms are kept, because tense makes a difference."""
    is_past = word.endswith("ed") or ENGLISH.base_forms.get(word, word) != word
    return word if is_past or not word.isalpha() else "".join(analyze(word))


def _is_value(word: str, names: frozenset[str], kinds: Mapping[str, str]) -> bool:
    return word in names or word in kinds or any(map(str.isdigit, word))


def _phrased(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words without their subject, with each phrase ("is fond of") replaced by its first synonym."""
    said: list[str] = []
    before = ""
    for word in words:
        synonym = _SYNONYMS.get(word, "")
        if synonym and said and said[-1] in _BE:
            said.pop()
        if word not in _SUBJECT and not (before in _SYNONYMS and word in _LEADS_ON):
            said.append(synonym or word)
        before = word
    return tuple(said)


@cached_text(4_096)
def _tokens(text: str) -> tuple[str, ...]:
    """Return the normalised words and numbers in order; Korean words without their particles."""
    words = _TOKEN.findall(_THOUSANDS.sub("", text.casefold()))
    return tuple(_form(word) for word in words if word not in _LIGHT)


@cached_text(4_096)
def _names(text: str) -> frozenset[str]:
    """Return the capitalised words after the first word of a sentence."""
    return frozenset(_form(name.casefold()) for name in _NAME.findall(text))


def _opening_names(one: str, other: str) -> frozenset[str]:
    """Return the differing capitalised words with which both texts begin, except common words."""
    first = [match[1].casefold() for text in (one, other) if (match := _FIRST_NAME.match(text))]
    names = frozenset(_form(word) for word in first if not is_common(word) and word not in _SUBJECT)
    return names if len(names) > 1 else frozenset()


def _form(word: str) -> str:
    """Return a word in the singular, without "'s", in American spelling; a Korean word without its particles."""
    if not word.isascii():
        word = word.replace("’", "'")
    word = strip_particles(word.removesuffix("'s"))
    for spelling, other in _SPELLINGS:
        word = spelling.sub(other, word)
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    return word[:-2] if word.endswith(("ches", "shes", "xes", "sses", "zes")) else word[:-1]


def own_copy(memory: Memory) -> Memory:
    """Return a memory that shares no metadata with the given one, which a caller may change."""
    return replace(memory, metadata=deepcopy(dict(memory.metadata))) if memory.metadata else memory


class Holdings(Mapping[str, Memory]):
    """One scope's memories at one version by their ids, indexed for comparison."""

    def __init__(self, contradictions: Contradictions) -> None:
        self._contradictions = contradictions
        self.version = 0
        self._memories: dict[str, Memory] = {}
        self._folded: dict[str, str] = {}  # of the compared memories: active, pending or rejected
        self._by_text: dict[str, dict[str, None]] = {}
        self._by_length: dict[int, dict[str, str]] = {}
        self._readings: dict[str, tuple[Reading, ...]] = {}
        self._by_subject: dict[str, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._memories)

    def __getitem__(self, memory_id: str) -> Memory:
        return self._memories[memory_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._memories)

    def apply(self, updates: RecordUpdates) -> None:
        """Apply the updates read from the store."""
        if updates.is_whole:
            named = {memory.id for memory in updates.memories}
            self.drop([memory_id for memory_id in self._memories if memory_id not in named])
        changed = [memory for memory in updates.memories if self._memories.get(memory.id) != memory]
        self.drop(memory.id for memory in changed)
        self.add(changed)
        self.version = updates.version

    def change(self, version: int, *, put: Iterable[Memory], removed: Iterable[str]) -> None:
        """Apply the changes that were committed at this version."""
        memories = list(map(own_copy, put))
        self.drop([*(memory.id for memory in memories), *removed])
        self.add(memories)
        self.version = version

    def same_text(self, text: str, speaker: str | None = None) -> str | None:
        """Return the id of a speaker's memory with these words: an active one before a pending, then a rejected one."""
        ids = [name for name in self._by_text.get(folded(text), ()) if self[name].speaker == speaker]
        if not ids:
            return None
        return min(ids, key=lambda memory_id: (_STATUSES.index(self[memory_id].status), memory_id))

    def similar(self, text: str, *, cutoff: float) -> list[str]:
        """Return the ids of at most five memories whose texts pass the cutoff, the most similar first."""
        words = folded(text)
        scored: list[tuple[float, str]] = []
        shortest, longest = int(cutoff * len(words)), int(len(words) / cutoff) + 1 if cutoff else sys.maxsize
        alike = Levenshtein.normalized_similarity
        for length, texts in self._by_length.items():
            if shortest <= length <= longest:  # other lengths cannot reach the cutoff
                found = process.extract(words, texts, scorer=alike, score_cutoff=cutoff, limit=None)
                scored += ((-score, memory_id) for _, score, memory_id in found if score > cutoff)
        return [memory_id for _, memory_id in sorted(scored)[:_MOST_SIMILAR]]

    def contradicted(self, text: str, speaker: str | None = None) -> list[str]:
        """Return the ids of a speaker's valid memories that the text contradicts."""
        if self._contradictions.detector is None:
            read = readings_of(text)
            near = (name for name in self._near(read) if self[name].speaker == speaker)
            return sorted(other for other in near if conflict(read, self._readings[other]))
        own = (one for name in self._folded if (one := self[name]).is_current and one.speaker == speaker)
        held = {one.id: one.text for one in own}
        nearest = process.extract(text, held, scorer=fuzz.token_set_ratio, limit=_MOST_ASKED)
        ids = [memory_id for _, _, memory_id in nearest]
        verdicts = self._contradictions.contradicted(text, [held[memory_id] for memory_id in ids])
        return sorted(memory_id for memory_id, is_ended in zip(ids, verdicts, strict=True) if is_ended)

    def _near(self, read: Iterable[Reading]) -> set[str]:
        """Return the ids of the valid memories that share a subject with a text."""
        return {memory_id for subject in _subjects(read) for memory_id in self._by_subject.get(subject, ())}

    def at_odds(self) -> list[tuple[str, str]]:
        """Return the pairs of one speaker's valid memories that have the same words, or contradict each other."""
        pairs = set[tuple[str, str]]()
        for memory_id, read in self._readings.items():
            opposed = (one for one in self._near(read) if one != memory_id and conflict(read, self._readings[one]))
            pairs.update((min(memory_id, other), max(memory_id, other)) for other in opposed)
        for ids in self._by_text.values():
            pairs.update(combinations(sorted(memory_id for memory_id in ids if self[memory_id].is_current), 2))
        return sorted(pair for pair in pairs if self[pair[0]].speaker == self[pair[1]].speaker)

    def add(self, memories: Iterable[Memory]) -> None:
        """Add memories that are new, or about to be stored."""
        for memory in memories:
            self._memories[memory.id] = memory
            if memory.superseded_by is not None:
                continue
            text = self._folded[memory.id] = folded(memory.text)
            self._by_text.setdefault(text, {})[memory.id] = None
            self._by_length.setdefault(len(text), {})[memory.id] = text
            if memory.is_current:
                read = self._readings[memory.id] = readings_of(memory.text)
                for subject in _subjects(read):
                    self._by_subject.setdefault(subject, {})[memory.id] = None

    def drop(self, ids: Iterable[str]) -> None:
        """Drop the memories that exist."""
        for memory_id in ids:
            if self._memories.pop(memory_id, None) is None:
                continue
            text = self._folded.pop(memory_id, None)
            if text is None:
                continue
            _discard(self._by_text, text, memory_id)
            self._by_length[len(text)].pop(memory_id)
            for subject in _subjects(self._readings.pop(memory_id, ())):
                _discard(self._by_subject, subject, memory_id)


def _subjects(read: Iterable[Reading]) -> frozenset[str]:
    """Return the single-valued attributes and the word stems of a text, by which memories are found that share them."""
    return frozenset(subject for one in read for subject in (*one.slots, *one.about))


def _discard(groups: dict[str, dict[str, None]], name: str, memory_id: str) -> None:
    groups[name].pop(memory_id, None)
    if not groups[name]:
        del groups[name]
