"""Messages, exchanges and turns."""

import pickle
from collections import Counter
from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common.exceptions import InvalidInputError
from arc_common.messages import (
    ContentPart,
    Exchange,
    Message,
    Origin,
    Role,
    ToolCall,
    check_identifier,
    exchanges_of,
    same_content,
    turns_of,
)

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def user(text: str = "ask") -> Message:
    return Message(Role.USER, text)


def calls(*ids: str | None) -> Message:
    return Message(Role.ASSISTANT, "", tool_calls=tuple(ToolCall("f", id=call_id) for call_id in ids))


def result(call_id: str | None, text: str = "found") -> Message:
    return Message(Role.TOOL, text, tool_call_id=call_id)


@pytest.mark.parametrize("text", ["user", "User", "USER"])
def test_roles_are_read_case_insensitively(text: str) -> None:
    assert Role(text) is Role.USER
    assert Message(text).role is Role.USER  # type: ignore[arg-type] # text is accepted where it is converted


def test_an_unknown_role_is_refused() -> None:
    for value in ["human", "", None, 1]:
        with pytest.raises(InvalidInputError, match=r"^role: got .*, expected one of system, user, assistant, tool"):
            Message(value)


@pytest.mark.parametrize("content", [None, "", ()], ids=repr)
def test_nothing_and_empty_stay_different(content: Any) -> None:
    message = Message(Role.ASSISTANT, content)
    assert message.content == content
    assert type(message.content) is type(content)
    assert message.text == ""


def test_the_text_of_parts_is_that_of_its_text_parts() -> None:
    parts = [
        ContentPart("thinking", text="hm"),
        ContentPart("text", text="a"),
        ContentPart("image", url="u"),
        ContentPart("text", text="b"),
    ]
    message = Message(Role.USER, parts)  # type: ignore[arg-type] # any sequence is accepted where it is copied
    assert message.text == "ab"
    assert message.content == tuple(parts)


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("content", {"content": 1}, "message.content"),
    ("content item", {"content": ["text"]}, "message.content"),
    ("tool calls", {"tool_calls": [{"name": "f"}]}, "message.tool_calls"),
    ("tool call id", {"tool_call_id": 1}, "message.tool_call_id"),
    ("name", {"name": 1}, "message.name"),
    ("id type", {"id": 1}, "message.id"),
    ("empty id", {"id": ""}, "message.id"),
    ("naive time", {"created_at": datetime(2026, 1, 1)}, "message.created_at"),  # noqa: DTZ001 - the invalid value
    ("text as time", {"created_at": "2026-01-01"}, "message.created_at"),
    ("metadata", {"metadata": [1]}, "message.metadata"),
]


WRONG_PIECES: list[tuple[str, type, dict[str, Any], str]] = [
    ("part type", ContentPart, {"type": "picture"}, "content.type"),
    ("text part without text", ContentPart, {"type": "text"}, "content.text"),
    ("thinking", ContentPart, {"type": "thinking", "text": 1}, "content.text"),
    ("url", ContentPart, {"type": "image", "url": b"u"}, "content.url"),
    ("data", ContentPart, {"type": "image", "data": b"d"}, "content.data"),
    ("mime type", ContentPart, {"type": "image", "mime_type": 1}, "content.mime_type"),
    ("extra", ContentPart, {"type": "image", "extra": [1]}, "content.extra"),
    ("call name", ToolCall, {"name": None}, "tool_calls.name"),
    ("call arguments", ToolCall, {"name": "f", "arguments": [1]}, "tool_calls.arguments"),
    ("call id", ToolCall, {"name": "f", "id": 1}, "tool_calls.id"),
]


def test_wrong_fields_parts_and_calls_are_refused_by_name() -> None:
    wrong = [(what, partial(Message, Role.USER), fields, name) for what, fields, name in WRONG]
    for what, make, fields, name in [*wrong, *WRONG_PIECES]:
        with pytest.raises(InvalidInputError) as refused:
            make(**fields)
        assert refused.value.field == name, what


@pytest.mark.parametrize(
    "value",
    [None, 1, b"id", "", " \t", "x" * 256, "a\x00", "\ud800"],
    ids=["none", "number", "bytes", "empty", "blank", "long", "nul", "surrogate"],
)
def test_a_bad_identifier_is_refused(value: object) -> None:
    with pytest.raises(InvalidInputError) as refused:
        check_identifier("session_id", value)
    assert refused.value.field == "session_id"


def test_a_message_is_a_value() -> None:
    message = Message(Role.USER, "x", metadata={"a": 1}, origin=Origin("langchain", "{}"))
    with pytest.raises(FrozenInstanceError):
        message.content = "y"  # type: ignore[misc] # the refusal is what is tested
    assert replace(message, content="y").metadata == {"a": 1}
    assert pickle.loads(pickle.dumps(message)) == message  # noqa: S301 - its own bytes


def test_storing_gives_what_is_missing_and_keeps_what_is_there() -> None:
    minted = user().stored_as("new", NOW)
    assert (minted.id, minted.created_at) == ("new", NOW)
    assert minted.stored_as("other", NOW + timedelta(days=1)) is minted
    abroad = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=9)))
    kept = Message(Role.USER, "x", id="mine", created_at=abroad).stored_as("new", NOW)
    assert kept.id == "mine"
    assert kept.created_at == abroad
    assert kept.created_at.utcoffset() == timedelta(0)


def test_what_arc_made_is_known_by_its_mark() -> None:
    assert Message(Role.SYSTEM, "x", metadata={"arc": None}).made_by_arc
    assert not Message(Role.SYSTEM, "x", metadata={"other": "arc"}).made_by_arc


SAME = Message(Role.ASSISTANT, "x", tool_calls=(ToolCall("f", {"a": 1}, "1"),), name="n")
IMAGE = ContentPart("image", url="u")
DIFFERENT: list[dict[str, Any]] = [
    {"role": Role.USER},
    {"content": "y"},
    {"content": (ContentPart("text", text="x"), IMAGE)},
    {"tool_calls": ()},
    {"tool_calls": (ToolCall("f", {"a": 2}, "1"),)},
    {"tool_call_id": "1"},
    {"name": None},
]


def test_the_same_content_in_another_shape() -> None:
    """Text as a string or as parts, None or an empty string, and another id or origin don't change the content."""
    for change in (
        {"content": (ContentPart("text", text="x"),)},
        {"content": (ContentPart("text", text="x"), ContentPart("opaque", name="cache"))},
        {"id": "1", "metadata": {"a": 1}, "origin": Origin("langchain", "{}")},
    ):
        assert same_content(SAME, replace(SAME, **change))
    assert same_content(replace(SAME, content=None), replace(SAME, content=""))


def test_other_content() -> None:
    for change in DIFFERENT:
        assert not same_content(SAME, replace(SAME, **change)), change
        assert not same_content(replace(SAME, **change), SAME), change


def test_results_stand_behind_their_call_also_when_they_came_late() -> None:
    """Another writer's message between a call and its result does not separate them."""
    call, late = calls("1", "2"), result("2")
    groups, orphans = exchanges_of([user("a"), call, result("1"), user("b"), late])
    assert [group.messages for group in groups] == [(user("a"),), (call, result("1"), late), (user("b"),)]
    assert [group.complete for group in groups] == [True, True, True]
    assert orphans == []


def test_an_open_call_leaves_its_exchange_incomplete() -> None:
    groups, _ = exchanges_of([user(), calls("1", "2"), result("1")])
    assert [group.complete for group in groups] == [True, False]


def test_results_without_a_call_are_orphans() -> None:
    early, stray, second = result("1", "early"), result("9"), result("1", "second")
    groups, orphans = exchanges_of([early, user(), calls("1"), stray, result("1"), second])
    assert orphans == [early, stray, second]
    assert groups[-1] == Exchange((calls("1"), result("1")))


def test_a_call_id_used_again_means_the_latest_open_call() -> None:
    groups, orphans = exchanges_of([calls("1"), result("1", "a"), calls("1"), result("1", "b")])
    assert [group.messages[1].text for group in groups] == ["a", "b"]
    groups, orphans = exchanges_of([calls("1"), calls("1"), result("1", "a")])
    assert [len(group.messages) for group in groups] == [1, 2]
    assert orphans == []


def test_calls_without_ids_are_answered_in_order() -> None:
    groups, orphans = exchanges_of([calls(None), calls(None), result(None, "a"), result(None, "b")])
    assert [group.messages[1].text for group in groups] == ["a", "b"]
    assert orphans == []


def test_turns_begin_with_the_user() -> None:
    """Messages before the first user message form a turn of their own, which can't open a request."""
    system = Message(Role.SYSTEM, "rules")
    history = [system, user("a"), calls("1"), result("1"), Message(Role.ASSISTANT, "done"), user("b")]
    turns = turns_of(exchanges_of(history)[0])
    assert [turn.messages for turn in turns] == [(system,), tuple(history[1:5]), (user("b"),)]
    assert [turn.starts_with_user for turn in turns] == [False, True, True]
    assert turns_of([]) == []


call_ids = st.sampled_from([None, "1", "2", "3"])
histories = st.lists(
    st.builds(user, st.text(max_size=3))
    | st.lists(call_ids, max_size=3).map(lambda ids: calls(*ids))
    | st.builds(result, call_ids, st.text(max_size=3))
    | st.just(Message(Role.SYSTEM, "rules")),
    max_size=20,
)


@given(histories)
def test_grouping_loses_nothing_and_pairs_rightly(history: list[Message]) -> None:
    """Each message occurs once, exchanges are in order, and each result follows a call with its id."""
    history = [replace(message, id=str(i)) for i, message in enumerate(history)]
    groups, orphans = exchanges_of(history)
    assert Counter(m.id for group in groups for m in group.messages) + Counter(m.id for m in orphans) == Counter(
        m.id for m in history
    )
    order = {message.id: place for place, message in enumerate(history)}
    assert [order[group.messages[0].id] for group in groups] == sorted(order[group.messages[0].id] for group in groups)
    for group in groups:
        head, *results = group.messages
        assert head.role is not Role.TOOL
        answered = Counter(message.tool_call_id for message in results)
        made = Counter(call.id for call in head.tool_calls)
        assert answered <= made
        assert group.complete is (answered == made)
        assert all(order[head.id] < order[message.id] for message in results)
    assert all(message.role is Role.TOOL for message in orphans)
    assert [message for turn in turns_of(groups) for message in turn.messages] == [
        message for group in groups for message in group.messages
    ]
    assert all(turn.starts_with_user for turn in turns_of(groups)[1:])
