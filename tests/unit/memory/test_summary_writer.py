"""SummaryWriter: the next segment to write, its author, and its stored content."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count, islice

import pytest

from arc_common.exceptions import SummaryFailedError
from arc_common.facts import Fact, FactCategory, ProposedFact
from arc_common.memory.summaries.writer import SummaryWriter, content_hash
from arc_common.messages import ContentPart, Message, Role, ToolCall, same_content
from arc_common.prompts.summary import ParsedSummary
from arc_common.protocols import CountedMessage, SessionKey
from arc_common.protocols.summaries import Lease, View
from arc_common.settings import ArcSettings
from arc_common.stores import SqlStore
from arc_common.text.sentences import sentences_of
from arc_common.tokens.counters import HeuristicTokenCounter
from tests.support.services import services

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEY = SessionKey("session")


class Scripted:
    """A summariser that fails while it is `down`, and records its requests."""

    def __init__(self) -> None:
        self.down = False
        self.facts: tuple[ProposedFact, ...] = ()
        self.removed_keys: tuple[str, ...] = ()
        self.asked: list[tuple[str, int]] = []
        self.related: list[Sequence[Fact]] = []

    def _say(self, kind: str, size: int) -> str:
        self.asked.append((kind, size))
        if self.down:
            raise SummaryFailedError("down")
        return f"{kind} by the model"

    def leaf(self, messages: Sequence[Message], *, related: Sequence[Fact]) -> ParsedSummary:
        self.related.append(related)
        return ParsedSummary(self.facts, self.removed_keys, self._say("leaf", len(messages)))

    def era(self, narratives: Sequence[str]) -> str:
        return self._say("era", len(narratives))


class Bench:
    """A store with a session, and a writer for it."""

    def __init__(
        self,
        summarizer: Scripted | None,
        *,
        store: SqlStore | None = None,
        **summary: object,
    ) -> None:
        self.store = store or SqlStore(clock=lambda: NOW)
        self.summaries = self.store.summaries
        numbers = count(1)
        prefix = id(self)
        self.room: int | None = None
        self.writer = SummaryWriter(
            services(
                self.store,
                settings=ArcSettings(summary={"leaf_messages": 16, **summary}),  # short messages fill a leaf, too
                clock=lambda: NOW,
                new_id=lambda: f"f{prefix}-{next(numbers)}",
            ),
            summarizer,
            room_of=lambda _: self.room,
        )

    def say(self, messages: int, *, first: int = 1) -> None:
        """Append alternating user and assistant messages."""
        self.store.append(KEY, [self.message(n) for n in range(first, first + messages)])

    @staticmethod
    def message(number: int, text: str = "", *, tokens: int = 10) -> CountedMessage:
        role = Role.USER if number % 2 else Role.ASSISTANT
        text = text or f"My order {number} is ORD-{number}."
        return CountedMessage(Message(role, text, id=f"m{number}", created_at=NOW), tokens, "x")

    def lease(self) -> Lease:
        lease = self.summaries.claim(KEY, owner="me", seconds=60)
        assert lease is not None
        return lease

    def work(self) -> int:
        """Write all that is due; return the number of steps."""
        steps = 1
        while self.writer.step(KEY, self.lease()):
            steps += 1
            assert steps < 2_000
        return steps

    def adopt(self, boundary: int) -> None:
        state = self.summaries.state(KEY, limit=0)
        version = state.view.version + 1 if state.view else 1
        view = View(version, boundary, boundary, (), (), "", (), 1.0, NOW)
        assert self.summaries.adopt(KEY, view, epoch=state.epoch)

    def cover(self) -> list[tuple[int, int, int, str | None]]:
        return [(one.level, one.start, one.end, one.made_by) for one in self.summaries.segments(KEY)]


def test_rules_first_then_the_model() -> None:
    """Rules write all leaves before the first model call; then the model writes each once, from its messages."""
    model = Scripted()
    bench = Bench(model)
    bench.say(60)
    for _ in range(4):
        assert bench.writer.step(KEY, bench.lease())
    assert [maker for *_, maker in bench.cover()] == ["rules"] * 4
    assert not model.asked
    bench.work()
    assert bench.cover() == [(0, 1, 10, "model"), (0, 11, 26, "model"), (0, 27, 42, "model"), (0, 43, 58, "model")]
    assert model.asked == [("leaf", 10), ("leaf", 16), ("leaf", 16), ("leaf", 16)]
    assert bench.work() == 1


def test_leaves_are_made_for_the_room_that_requests_have() -> None:
    """With 1,000 tokens for messages, a leaf is due at 900, without the ten recent ones; else at `leaf_tokens`."""
    for room, ends in ((None, [10, 88]), (1_000, [10, 36, 62, 88]), (100_000, [10, 88])):
        bench = Bench(None, leaf_messages=500, leaf_tokens=2_200)
        if room is not None:
            bench.room = room
        bench.store.append(KEY, [bench.message(n, tokens=25) for n in range(1, 101)])
        bench.work()
        assert [end for _, _, end, _ in bench.cover()] == ends


def test_a_block_is_written_at_adoption_from_its_leaves_sentences() -> None:
    """It is written once its leaves are adopted, from their sentences alone."""
    model = Scripted()
    bench = Bench(model, block_narrative_tokens=12)
    bench.say(60)
    bench.work()
    told = [segment.narrative for segment in bench.summaries.segments(KEY)]
    asked = list(model.asked)
    bench.adopt(58)
    bench.work()
    assert bench.cover() == [(1, 1, 58, "model")]
    assert model.asked == asked
    narrative = bench.summaries.segments(KEY)[0].narrative
    assert narrative
    assert all(any(sentence in leaf for leaf in told) for sentence in sentences_of(narrative))
    assert bench.work() == 1


def test_a_block_of_rules_leaves_is_finished_too() -> None:
    """While the model is down, rules write the leaves and the block; nothing is due then."""
    model = Scripted()
    model.down = True
    bench = Bench(model)
    bench.say(60)
    bench.work()
    bench.adopt(58)
    bench.work()
    assert bench.cover() == [(1, 1, 58, "rules")]
    assert not bench.writer.is_due(KEY)


def test_a_model_that_fails_is_asked_once_for_each() -> None:
    """The rules' version stays; an edit or a new engine causes another request."""
    model = Scripted()
    model.down = True
    bench = Bench(model)
    bench.say(30)
    bench.work()
    bench.work()
    assert model.asked == [("leaf", 10), ("leaf", 16)]
    assert all(bench.writer.is_final(KEY, segment) for segment in bench.summaries.segments(KEY))
    model.down = False
    bench.store.append(KEY, [bench.message(3, "Never mind.")])
    bench.work()
    assert bench.cover() == [(0, 1, 10, "model"), (0, 11, 26, "rules")]
    again = Bench(model, store=bench.store)
    again.work()
    assert again.cover() == [(0, 1, 10, "model"), (0, 11, 26, "model")]


def test_a_long_outage_does_not_end_the_model() -> None:
    """After more than 64 failed leaves, it still gets the next ones."""
    model = Scripted()
    model.down = True
    bench = Bench(model, leaf_messages=2)
    bench.say(180)
    bench.work()
    model.down = False
    bench.say(2, first=181)
    bench.work()
    assert [maker for *_, maker in bench.cover()].count("model") == 1


def test_eras() -> None:
    """If narratives are too long, blocks are merged into a running era; rules may write it as well as a model."""
    model = Scripted()
    bench = Bench(model, leaf_messages=2, max_tokens=10)
    bench.say(70)
    bench.work()
    bench.adopt(66)
    model.down = True
    bench.work()
    eras = [segment for segment in bench.summaries.segments(KEY) if segment.level == 2]
    assert [era.made_by for era in eras] == ["rules"]
    assert Bench(Scripted(), store=bench.store).writer.is_final(KEY, eras[0])
    assert eras[0].sources == ()
    off = Bench(Scripted(), leaf_messages=2, max_tokens=10, eras_enabled=False)
    off.say(70)
    off.work()
    off.adopt(66)
    off.work()
    assert {level for level, *_ in off.cover()} == {0, 1}


def test_an_era_closes_at_64_blocks() -> None:
    """It records the number of its blocks, also after growing; the next ones go into another era."""
    bench = Bench(None, leaf_messages=2, max_tokens=10)
    bench.store.append(KEY, [bench.message(n, f"How is parcel {n} doing?") for n in range(1, 601)])
    bench.work()
    for boundary in (240, 560):
        bench.adopt(boundary)
        bench.work()
    eras = [segment for segment in bench.summaries.segments(KEY) if segment.level == 2]
    assert [(era.start, era.end, era.parts) for era in eras] == [(1, 512, 64), (513, 552, 5)]


def test_segments_name_their_sources() -> None:
    """Sources are each message's id and the hash of its content, which depends on nothing else."""
    bench = Bench(Scripted())
    bench.say(12)
    bench.work()
    [before] = bench.summaries.segments(KEY)
    bench.store.append(KEY, [bench.message(3, "Never mind.")])
    bench.work()
    [after] = bench.summaries.segments(KEY)
    for segment in (before, after):
        assert [name for name, _ in segment.sources] == [f"m{n}" for n in range(1, 11)]
    assert set(before.sources) - set(after.sources) == {before.sources[2]}
    assert len({content for _, content in before.sources}) == 10


def test_a_content_hash_tells_what_same_content_tells() -> None:
    """Two messages have one hash if they say the same, whatever their ids and times."""
    cases = [
        {"role": Role.ASSISTANT},
        {"content": "Ship it!"},
        {"content": (ContentPart("text", "Ship it."), ContentPart("image", url="https://example.org/a.png"))},
        {"name": "jun"},
        {"tool_call_id": "c2"},
        {"tool_calls": (ToolCall("ship", {"to": "Lisbon"}, id="c1"),)},
        {"id": "m2"},
        {"created_at": NOW},
    ]
    for changed in cases:
        message = Message(
            Role.USER, "Ship it.", name="mina", tool_call_id="c1",
            tool_calls=(ToolCall("ship", {"to": "Berlin"}, id="c1"),), id="m1",
        )  # fmt: skip
        other = replace(message, **changed)
        assert (content_hash(other) == content_hash(message)) == same_content(other, message)


def test_inventions_are_marked_and_gaps_are_filled() -> None:
    """A model's fact without support in its messages never holds; rules add hard facts that it omits."""
    model = Scripted()
    model.facts = (
        ProposedFact("ship", "Titanic", FactCategory.ENTITY, ("m1",)),
        ProposedFact("first order", "ORD-1", FactCategory.NUMERIC, ("m1",)),
    )
    bench = Bench(model)
    bench.say(12)
    bench.work()
    facts = bench.summaries.facts(KEY)
    assert not [fact for fact in facts if "Titanic" in fact.value]
    every = bench.summaries.facts(KEY, include_ungrounded=True)
    [invented] = [fact for fact in every if "Titanic" in fact.value]
    assert (invented.grounded, invented.removed, invented.superseded_by, invented.is_current) == (
        False,
        False,
        None,
        False,
    )
    assert bench.store.read(KEY, ids=invented.sources)
    assert [fact.made_by for fact in facts if fact.value == "ORD-1"] == ["model"]
    assert [fact.made_by for fact in facts if "ORD-5" in fact.value] == ["rules"]


def test_what_a_model_left_out_matters_less_than_by_rules_alone() -> None:
    """The model has read the context of each; its own facts come first if not all fit."""
    by_rules = Bench(None)
    read = Bench(Scripted())
    for bench in (by_rules, read):
        bench.say(12)
        bench.work()

    before = {fact.line: fact.importance for fact in by_rules.summaries.facts(KEY) if not fact.is_excerpt}
    after = {fact.line: fact.importance for fact in read.summaries.facts(KEY) if not fact.is_excerpt}
    assert after.keys() == before.keys()
    assert all(0 < after[line] < before[line] for line in before)


def test_known_facts_are_shown_within_limits() -> None:
    """They take at most an eighth of a leaf's tokens; they used to be a third of the cost of summaries."""
    model = Scripted()
    bench = Bench(model)
    text = "My order is ORD-7, it goes to Berlin, and the box must not be opened before May."
    said = (bench.message(n, f"{text} I saw parcel {n}." if n % 2 else "", tokens=100) for n in count(1))
    bench.store.append(KEY, list(islice(said, 100)))
    bench.work()
    counter = HeuristicTokenCounter()
    sizes = [sum(counter.count(fact.line) for fact in facts) for facts in model.related]
    assert 0 < max(sizes) <= 16 * 100 // 8


def test_what_a_model_names_as_removed_is_history() -> None:
    """A message that withdraws an earlier leaf's fact ends it; other facts stay."""
    model = Scripted()
    model.facts = (
        ProposedFact("delivery address", "12 High Street", FactCategory.ENTITY, ("m1",)),
        ProposedFact("invoice address", "7 Mill Lane", FactCategory.ENTITY, ("m3",)),
    )
    bench = Bench(model)
    bench.store.append(KEY, [bench.message(1, "The delivery goes to 12 High Street."), bench.message(2)])
    bench.store.append(KEY, [bench.message(3, "The invoice goes to 7 Mill Lane.")])
    bench.say(9, first=4)
    bench.work()
    model.facts, model.removed_keys = (), ("delivery address",)
    cancelled = "Please cancel the delivery to 12 High Street, that is no longer so."
    bench.store.append(KEY, [bench.message(13, cancelled)])
    bench.say(20, first=14)
    bench.work()

    addresses = [fact for fact in bench.summaries.facts(KEY, include_superseded=True) if "address" in fact.key]
    assert {fact.value: (fact.is_current, fact.removed) for fact in addresses} == {
        "12 High Street": (False, True),
        "7 Mill Lane": (True, False),
    }


def test_what_is_said_in_each_leaf_is_one_fact() -> None:
    """This holds even if a leaf is read twice, by rules and by the model; the newest evidence is kept."""
    bench = Bench(Scripted())
    bench.store.append(KEY, [bench.message(n, "My order is ORD-7." if n % 2 else "Noted.") for n in range(1, 31)])
    bench.work()
    [fact] = [fact for fact in bench.summaries.facts(KEY) if "ORD-7" in fact.value]
    assert fact.segment == 11
    assert len(bench.summaries.facts(KEY, include_superseded=True)) == 2


def test_nothing_is_stored_after_another_took_the_lease() -> None:
    bench = Bench(Scripted())
    bench.say(12)
    old = bench.lease()
    bench.writer.step(KEY, old)
    bench.summaries.release(KEY, old)
    assert bench.summaries.claim(KEY, owner="other", seconds=60)
    bench.writer.step(KEY, old)
    assert bench.cover() == [(0, 1, 10, "rules")]


@pytest.mark.parametrize("stop", [False, True])
def test_stopping(stop: bool) -> None:
    bench = Bench(None)
    bench.say(12)
    if stop:
        bench.writer.stop()
    bench.writer.step(KEY, bench.lease())
    assert bool(bench.cover()) == (not stop)
