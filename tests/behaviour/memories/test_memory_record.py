"""A memory is a record with edits, history, validity and labels."""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from arc_common import (
    ArcSettings,
    ConfigurationError,
    ContextEngine,
    InvalidInputError,
    Memory,
    MemoryConflictError,
    MemoryNotFoundError,
    Message,
)
from arc_common.memories import MAX_MEMORY_CHARACTERS
from tests.support.clocks import START, Clock


def on(day: int) -> datetime:
    return START + timedelta(days=day)


@pytest.fixture
def engine(opened: Callable[..., ContextEngine], clock: Clock) -> ContextEngine:
    return opened(clock=clock)


def texts(found: list) -> list[str]:
    return [one.text if isinstance(one, Memory) else one.memory.text for one in found]


def test_an_edit_is_found_at_once_and_the_earlier_words_only_in_the_history(
    engine: ContextEngine, clock: Clock
) -> None:
    """Every field can change; omitted ones stay."""
    ann = engine.memories(user_id="ann")
    first = ann.add("Ann keeps bees.", importance=0.4, metadata={"by": "form"}, tags=["hobby"])
    clock.now = on(2)
    edited = ann.edit(
        first.id, text="앤은 벌을 키우지 않는다.", type="insight", valid_until=on(9), tags=["pets", "pets"]
    )
    assert (edited.revision, edited.revised_at, edited.created_at) == (2, on(2), first.created_at)
    assert (edited.importance, edited.metadata, edited.tags) == (0.4, {"by": "form"}, ("pets",))
    assert ann.get(first.id) == ann.list()[0] == edited
    assert texts(ann.search("벌")) == ["앤은 벌을 키우지 않는다."]
    assert ann.search("bees") == []
    assert ann.edit(first.id, valid_until=None).valid_until is None
    assert texts(ann.history(first.id)) == ["Ann keeps bees.", *["앤은 벌을 키우지 않는다."] * 2]
    assert [one.revision for one in ann.history(first.id)] == [1, 2, 3]
    assert ann.count() == len(ann.list(status=None, include_superseded=True)) == 1


def test_a_rollback_is_a_new_revision(engine: ContextEngine) -> None:
    """It restores all content of an earlier revision and is itself in the history."""
    ann = engine.memories(user_id="ann")
    first = ann.add("Ann keeps bees.", tags=["hobby"], metadata={"by": "form"}, valid_until=on(9))
    values = {"tags": ["farm"], "importance": 1.0, "metadata": {}, "valid_from": on(1), "valid_until": None}
    ann.edit(first.id, text="Ann keeps goats.", type="insight", **values)
    back = ann.rollback(first.id, 1)
    assert replace(back, revision=1, revised_at=None) == first
    assert back.revision == 3
    assert texts(ann.search("bees")) == ["Ann keeps bees."]
    assert texts(ann.history(first.id)) == ["Ann keeps bees.", "Ann keeps goats.", "Ann keeps bees."]
    for revision in (0, 4, None):
        with pytest.raises(InvalidInputError, match="one of 1, 2, 3"):
            ann.rollback(first.id, revision)


def test_of_two_editors_the_second_learns_of_the_first(engine: ContextEngine) -> None:
    """An edit may name its base revision; without one, the last wins."""
    ann = engine.memories(user_id="ann")
    memory = ann.add("Ann keeps bees.")
    ann.edit(memory.id, text="Ann keeps three hives.", revision=1)
    with pytest.raises(MemoryConflictError, match=r"at revision 2, not 1: it was edited meanwhile"):
        ann.edit(memory.id, text="Ann keeps four hives.", revision=1)
    assert ann.get(memory.id).text == "Ann keeps three hives."

    def edit(number: int) -> bool:
        try:
            return bool(ann.edit(memory.id, text=f"Ann keeps {number} hives.", revision=2))
        except MemoryConflictError:
            return False

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(edit, range(8))) == 1
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: ann.edit(memory.id, importance=number / 10), range(8)))
    assert [one.revision for one in ann.history(memory.id)] == list(range(1, 12))


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"text": "x" * (MAX_MEMORY_CHARACTERS + 1)}, "memory.text"),
        ({"tags": [""]}, "memory.tags"),
        ({"valid_until": datetime(2026, 1, 1)}, "memory.valid_until"),  # noqa: DTZ001 - the invalid value
        ({"valid_until": datetime(1999, 1, 1, tzinfo=UTC)}, "memory.valid_until"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_wrong_edit_changes_nothing(engine: ContextEngine, values: dict, field: str) -> None:
    ann = engine.memories(user_id="ann")
    memory = ann.add("Ann keeps bees.")
    with pytest.raises(InvalidInputError, match=field.replace(".", r"\.")):
        ann.edit(memory.id, **values)
    assert ann.history(memory.id) == [memory]
    with pytest.raises(InvalidInputError, match=r"valid_until: .* not before memory\.valid_from"):
        ann.add("Ann was in Porto.", valid_from=on(5), valid_until=on(3))
    for call in (lambda: ann.edit("none", text="a"), lambda: ann.history("none"), lambda: ann.rollback("none", 1)):
        with pytest.raises(MemoryNotFoundError):
            call()
    with pytest.raises(MemoryNotFoundError):
        engine.memories(user_id="bob").edit(memory.id, text="Bob was here.")


def test_an_edited_text_supersedes_what_it_contradicts(engine: ContextEngine) -> None:
    """It acts like a new memory with that text, but never on itself."""
    ann = engine.memories(user_id="ann")
    seoul = ann.add("Ann lives in Seoul.")
    note = ann.add("Ann has moved house.")
    edited = ann.edit(note.id, text="Ann lives in Busan.")
    assert ann.get(seoul.id).superseded_by == note.id
    assert edited.is_current
    again = ann.edit(note.id, text="Ann lives in Daegu.")
    assert ann.get(note.id) == again
    assert again.is_current
    assert len(ann.list(include_superseded=True)) == 2


def test_what_is_no_longer_valid_is_neither_found_nor_shown(engine: ContextEngine, clock: Clock) -> None:
    """A pin of it is not shown, either, until it is said again."""
    ann = engine.memories(user_id="ann")
    memory = ann.add("Ann is on holiday in Porto.", valid_until=on(7))
    ann.pin(memory.id)
    session = engine.session("s", user_id="ann")
    for day, holds in ((6, True), (7, False)):
        clock.now = on(day)
        assert bool(ann.search("holiday")) == bool(ann.list()) == bool(ann.count()) == holds
        assert bool(session.pins()) == holds
        assert ("Porto" in str(session.context("Where is my holiday?").messages)) == holds
    assert ann.list(include_superseded=True)[0].valid_until == on(7)
    assert ann.add("Ann is on holiday in Porto.").valid_until is None
    assert texts(ann.search("holiday")) == ["Ann is on holiday in Porto."]


def test_a_search_as_of_a_moment_finds_what_held_then(engine: ContextEngine, clock: Clock) -> None:
    """Superseded, edited and expired memories appear as they were; later ones don't."""
    ann = engine.memories(user_id="ann")
    ann.add("Ann lives in Seoul.")
    pet = ann.add("Ann has a cat called Tom.")
    ann.add("Ann rents a garage.", valid_until=on(3))
    clock.now = on(5)
    ann.add("Ann lives in Busan.")
    ann.edit(pet.id, text="Ann has a dog called Rex.")
    clock.now = on(9)
    asked = "Where does Ann live, which cat or dog has she, and what garage?"
    assert ann.search(asked, as_of=on(-1)) == []
    assert sorted(texts(ann.search(asked, as_of=on(2)))) == [
        "Ann has a cat called Tom.", "Ann lives in Seoul.", "Ann rents a garage.",
    ]  # fmt: skip
    assert sorted(texts(ann.search(asked, as_of=on(4)))) == ["Ann has a cat called Tom.", "Ann lives in Seoul."]
    assert sorted(texts(ann.search(asked, as_of=on(6)))) == sorted(texts(ann.search(asked)))
    assert texts(ann.search("Which cat?", top_k=1, as_of=on(2))) == ["Ann has a cat called Tom."]
    assert "Tom" in ann.context("Which cat?", as_of=on(2))
    assert ann.search("zebra", as_of=on(2)) == ann.search("", as_of=on(2)) == []
    for status in ("PENDING", "REJECTED"):
        ann.add(f"Ann has a garage in a {status} tower.", status=status)
    assert ann.search("Which tower?", as_of=on(9)) == []
    assert sorted(texts(ann.search(asked, as_of=on(9_999)))) == sorted(texts(ann.search(asked)))
    for moment in ("yesterday", datetime(2026, 1, 1)):  # noqa: DTZ001 - the invalid value
        with pytest.raises(InvalidInputError, match="as_of"):
            ann.search(asked, as_of=moment)


@pytest.mark.parametrize("tag", ["a,b", "x'y\"z", "100%_", "\\", "[1]", "🦊", "a\nb", "  a  ", "x" * 255])
def test_a_tag_may_have_any_characters(engine: ContextEngine, tag: str) -> None:
    ann = engine.memories(user_id="ann")
    ann.add("Ann likes green cars.", tags=[f"{tag[:-1]}?"])
    ann.add("Ann likes green tea.", tags=[tag])
    for given in ({}, {"as_of": on(1)}):
        assert texts(ann.search("What green things?", tags=[tag], **given)) == ["Ann likes green tea."]


def test_edits_and_rollbacks_at_once_make_one_revision_each(engine: ContextEngine) -> None:
    ann = engine.memories(user_id="ann")
    memory = ann.add("Ann keeps bees.")

    def change(number: int) -> int:
        if number % 2:
            return ann.rollback(memory.id, 1).revision
        return ann.edit(memory.id, text=f"Ann keeps {number} hives.").revision

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(change, range(12))) == list(range(2, 14))
    texts_of = {one.revision: one.text for one in ann.history(memory.id)}
    assert len(texts_of) == 13
    assert sum(text == "Ann keeps bees." for text in texts_of.values()) == 7
    assert texts(ann.search("bees hives")) == [texts_of[13]]


def test_tags_narrow_a_search_and_a_prompt(engine: ContextEngine) -> None:
    """One common tag is enough; untagged memories are not found; a repeated memory has both tags."""
    ann = engine.memories(user_id="ann")
    ann.add("Ann likes green tea.", tags=["drinks"])
    ann.add("Ann likes green walls.", tags=["house", "색깔"])
    ann.add("Ann likes green cars.")
    assert len(ann.search("What green things?")) == 3
    assert texts(ann.search("What green things?", tags=["drinks"])) == ["Ann likes green tea."]
    assert texts(ann.search("What green things?", tags=["색깔"])) == ["Ann likes green walls."]
    assert len(ann.search("What green things?", tags=["drinks", "house"])) == 2
    assert "walls" not in ann.context("What green things?", tags=["drinks"])
    assert ann.search("What green things?", tags=["none"]) == []
    assert ann.add("Ann likes green tea.", tags=["tea"]).tags == ("drinks", "tea")
    assert texts(ann.search("What green things?", tags=["tea"])) == ["Ann likes green tea."]
    for wrong in ("drinks", [7], None):
        with pytest.raises(InvalidInputError, match="tags"):
            ann.search("green", tags=wrong)


def test_removing_a_message_removes_what_earlier_revisions_say_of_it(engine: ContextEngine) -> None:
    """A memory is removed with its history; one with another source loses the earlier revisions."""
    session = engine.session("s", user_id="ann")
    session.append([Message("user", "Hello.", id="m"), Message("user", "Hello again.", id="n")])
    ann = engine.memories(user_id="ann")
    only = ann.add("Ann keeps bees.", sources=[("s", "m")])
    both = ann.add("Ann plays the harp.", sources=[("s", "m"), ("s", "n")])
    for memory in (only, both):
        ann.edit(memory.id, importance=1.0)
    session.remove(["m"])
    with pytest.raises(MemoryNotFoundError):
        ann.history(only.id)
    assert [one.sources for one in ann.history(both.id)] == [(("s", "n"),)]
    session.delete()
    with pytest.raises(MemoryNotFoundError):
        ann.history(both.id)


def test_facts_as_of_a_moment(url: str) -> None:
    """A replaced fact is returned for a time before its replacement."""
    with ContextEngine.open(
        url, settings=ArcSettings(summary={"trigger_message_count": 4, "recent_message_count": 0})
    ) as engine:
        session = engine.session("s")
        for day, text in enumerate(
            ["My email address is ann@old.example.", "My email address is now ann@new.example.", "Thanks."]
        ):
            session.append([Message("user", text, created_at=on(10 * day))])
            for n in range(40):
                at = on(10 * day) + timedelta(minutes=n)
                session.append(
                    [
                        Message("user", f"Question {day} {n}?", created_at=at),
                        Message("assistant", "Yes.", created_at=at),
                    ]
                )
        session.summarize()

        def values(moment: datetime | None) -> str:
            return " ".join(fact.value for fact in session.facts(as_of=moment))

        assert "ann@new.example" in values(None)
        assert "ann@old.example" not in values(None)
        assert "ann@old.example" in values(on(5))
        assert "ann@new.example" not in values(on(5))
        assert "ann@new.example" in values(on(30))
        assert "ann@old.example" not in values(on(30))
        assert values(on(-1)) == ""
        for moment in ("now", datetime(2026, 1, 1)):  # noqa: DTZ001 - the invalid value
            with pytest.raises(InvalidInputError, match="as_of"):
                session.facts(as_of=moment)


def test_types_and_instructions_of_the_application(opened: Callable[..., ContextEngine]) -> None:
    """The model gets both; its memories have these types, and an undescribed type becomes a fact."""
    answer = [
        {"type": "Goal", "content": "The user wants to run a marathon in May.", "importance": 0.8},
        {"type": "rumour", "content": "The user keeps bees on the roof.", "importance": 0.8},
    ]
    asked: list[Message] = []

    class Model:
        name = "model"

        def complete(self, messages: Sequence[Message]) -> str:
            asked.extend(messages)
            return json.dumps({"memories": answer})

    model = Model()
    engine = opened(model=model, types={" goal ": "what the user wants to reach"}, instructions="Leave out prices.")
    ann = engine.memories(user_id="ann")
    ann.extract("I want to run a marathon in May. I keep bees on the roof.", "Good luck!")
    assert "goal (what the user wants to reach)" in asked[0].text
    assert asked[0].text.endswith("Leave out prices.")
    assert {memory.type: memory.text.split()[2] for memory in ann.list()} == {"goal": "wants", "fact": "keeps"}
    assert [memory.type for memory in ann.list(type="GOAL")] == ["goal"]
    assert ann.add("할 일이 많다.", type="할 일").type == "할 일"
    with pytest.raises(InvalidInputError, match=r"memory\.type"):
        ann.add("Ann sings.", type="]")
    with pytest.raises(ConfigurationError, match=r"memory\.types"):
        ArcSettings(memory={"types": {"]": "wrong"}})


def shown_in_turn(engine: ContextEngine, **given: object) -> tuple[str, str]:
    """Return the memories in a request, and those in a view for a framework's prompt."""
    session = engine.session("s", user_id="ann")
    window = session.context("What does Ann have?", **given)
    view = session.window(query="What does Ann have?", **given)
    return window.messages[-1].text, "\n".join(message.text for message in view)


def test_a_turn_shows_only_memories_with_one_of_its_tags(clock: Clock) -> None:
    """`None` shows all; a pinned memory is shown whatever its tags."""
    with ContextEngine.open("sqlite://", clock=clock, settings=ArcSettings(memory={"enabled": True})) as engine:
        ann = engine.memories(user_id="ann")
        ann.add("Ann has a nut allergy.", tags=["health", "food"])
        ann.add("Ann has a red bicycle.", tags=["things"])
        ann.add("Ann has two sisters.")
        engine.session("s", user_id="ann").save_turn("Hello", "Hello!")
        for given, expected in (
            ({}, "nut red two"),
            ({"memory_tags": None}, "nut red two"),
            ({"memory_tags": ["food"]}, "nut"),
            ({"memory_tags": ("things", "health")}, "nut red"),
            ({"memory_tags": ["other"]}, ""),
        ):
            for text in shown_in_turn(engine, **given):
                assert [word for word in ("nut", "red", "two") if f" {word} " in text] == expected.split()


def test_tags_that_are_none_are_refused_without_a_session_too() -> None:
    """The error names the argument also for a session without an id."""
    with ContextEngine.open("sqlite://") as engine:
        for build in (engine.session(None).context, engine.session(None).window):
            with pytest.raises(InvalidInputError, match="memory_tags"):
                build(query="Hello", memory_tags=[])
