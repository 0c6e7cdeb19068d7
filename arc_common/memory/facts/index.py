"""The index of sessions' facts: recalls facts that are not always shown when a question is about them."""

from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from threading import Lock

from arc_common.caches import LRUCache, drop_session
from arc_common.concurrency import giving_way
from arc_common.context import RecalledLine
from arc_common.facts import Fact, with_local_days
from arc_common.memory.facts.ledger import follow_ups
from arc_common.memory.services import Services
from arc_common.protocols import SessionKey
from arc_common.protocols.summaries import SessionState
from arc_common.retrieval.bm25 import TextIndex
from arc_common.text.sentences import seeks

# Measured on ten sets of planted facts and on user messages of the shared SGD and CrossWOZ conversations: 92 % of the
# facts asked for are recalled, with hardly any other line; messages that ask nothing recall 5 lines instead of 50.
_ABOUT = 0.15
"""The least share of a perfect match at which a fact counts as relevant to the question."""
_BESIDE_THE_BEST = 0.5
"""A fact that scores below this share of the best fact's score is dropped: a good best match is the one meant."""
_MOST_GONE = 1_000
_MOST_INDEXED = 2_000
"""The most facts that are searched for a question, the most important first."""
_SESSIONS = 128


class FactIndex:
    """Indexes the valid facts; analyses each once and counts its tokens once. Thread-safe."""

    def __init__(
        self,
        facts: Sequence[Fact],
        *,
        count: Callable[[str], int],
        earlier: "FactIndex | None" = None,
    ) -> None:
        self.count = count
        self._known: set[str] = set()
        self._costs: dict[str, int] = {}
        if earlier is None or len(earlier._known) > len(facts) + _MOST_GONE:  # noqa: SLF001 - its own kind
            self._index = TextIndex()
        else:
            self._index, self._known = earlier._index, set(earlier._known)  # noqa: SLF001 - its own kind
            self._costs = earlier._costs  # noqa: SLF001 - its own kind
        new = [fact for fact in facts if fact.id not in self._known]
        self._known.update(fact.id for fact in new)
        self._index.extend((fact.id, fact.text) for fact in giving_way(new))
        self.facts = {fact.id: fact for fact in facts}
        """The facts by id, the most important first."""
        self._after = follow_ups(facts)
        self._leaves = sorted(fact.segment for fact in facts)

    def cost(self, text: str) -> int:
        """Return the number of tokens of a text, counted once."""
        if (tokens := self._costs.get(text)) is None:
            tokens = self._costs[text] = self.count(text)
        return tokens

    def importance(self, fact_ids: Sequence[str]) -> tuple[float, ...]:
        """Return the importance of each fact; 0 for a fact that is no longer valid."""
        found = map(self.facts.get, fact_ids)
        return tuple(fact.importance if fact else 0.0 for fact in found)

    def shares(self, query: str) -> list[tuple[Fact, float]]:
        """Return all facts, the most important first, each with its share of a perfect match (0 for none)."""
        best: dict[str, float] = {}
        for place, share in self._index.ranked(query).shares.items():
            best.setdefault(self._index.ids[place], share)
        return [(fact, best.get(fact_id, 0.0)) for fact_id, fact in self.facts.items()]

    def search(
        self, query: str, *, top_k: int, boundary: int, adopted: Collection[str]
    ) -> tuple[list[RecalledLine], int]:
        """Return the facts that a question is about, best first, and count the others that are not adopted."""

        def in_question(fact: Fact | None) -> bool:
            return fact is not None and fact.segment <= boundary

        asked = bisect_right(self._leaves, boundary)
        if not asked:
            return [], 0
        # the index also contains facts that do not apply here: they must not use up top_k
        found = self._index.ranked(query, top_k=top_k + len(self._known) - asked)
        ids, chosen, least = self._index.ids, list[str](), 0.0
        about = _ABOUT if seeks(query) else 2 * _ABOUT
        for place, score in zip(found.places, found.scores, strict=True):
            if not in_question(self.facts.get(ids[place])):
                continue
            least = least or max(about * found.ideal, _BESIDE_THE_BEST * score)
            if score < least or len(chosen) == top_k:
                break
            chosen.append(ids[place])
        always = {fact_id for fact_id in adopted if in_question(self.facts.get(fact_id))}
        for name in chosen[:]:  # "We changed it to 10 August" follows "We fly out on 9 August"
            if (later := self._after.get(name)) is not None:
                chosen = [one for one in chosen if one != later.id]
                chosen.insert(chosen.index(name) + 1, later.id)
        lines = [RecalledLine(name, line, self.cost(line)) for name in chosen for line in [self.facts[name].line]]
        return lines, asked - len(always.union(chosen))


@dataclass(frozen=True, slots=True)
class _Known:
    """Facts at one epoch and version of the ledger, including all leaves up to `read_to`."""

    epoch: int
    facts_version: int
    read_to: int
    facts: FactIndex

    def serves(self, state: SessionState, *, being_read: Callable[[], bool]) -> bool:
        boundary = state.boundary
        if self.epoch != state.epoch:
            return False
        return self.facts_version == state.facts_version or (self.read_to >= boundary and being_read())


class FactIndexes:
    """Caches the fact indexes of the most recently used sessions."""

    def __init__(self, services: Services) -> None:
        self._store = services.store.summaries
        self._count = services.token_counter.count
        self._clock = services.clock
        self._lock = Lock()
        self._sessions: LRUCache[SessionKey, _Known] = LRUCache(_SESSIONS)

    def for_turn(self, key: SessionKey, state: SessionState, *, being_read: Callable[[], bool]) -> FactIndex:
        """Return the facts for a question; while more are being read, the cached ones do if they reach the boundary."""
        known = self._get(key)
        if known is not None and known.serves(state, being_read=being_read):
            return known.facts
        return self.refreshed(key, state, read_to=state.boundary)

    def refreshed(self, key: SessionKey, state: SessionState, *, read_to: int) -> FactIndex:
        """Return the current facts, indexing only the new ones; leaves have been read up to `read_to`."""
        known = self._get(key)
        earlier = known.facts if known is not None and known.epoch == state.epoch else None
        if earlier is None or known is None or known.facts_version != state.facts_version:
            facts = self._store.facts(key, limit=_MOST_INDEXED, known=earlier.facts if earlier is not None else None)
            facts = with_local_days(facts, self._clock().tzinfo)
            earlier = FactIndex(facts, count=self._count, earlier=earlier)
        with self._lock:
            self._sessions[key] = _Known(state.epoch, state.facts_version, read_to, earlier)
        return earlier

    def forget(self, key: SessionKey) -> None:
        """Drop this session from the cache."""
        with self._lock:
            drop_session(self._sessions, key)

    def _get(self, key: SessionKey) -> _Known | None:
        with self._lock:
            return self._sessions.get(key)
