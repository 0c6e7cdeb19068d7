"""Any sequence of operations has the same results on every store, and any message survives storage."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from arc_common.exceptions import InvalidInputError, SessionNotFoundError
from arc_common.messages import ContentPart, Message, Origin, Role, ToolCall
from arc_common.protocols import ConversationStore, CountedMessage, SessionKey, StoredMessage
from arc_common.stores.codec import MESSAGE_COLUMNS, message_row, stored_from_row
from arc_common.stores.conversations import SqlStore

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
texts = st.text(max_size=8) | st.sampled_from(["", "\x00", "a\x00b", "\ud800", "\ud83d\ude00", "안녕", "🎉", "__arc__"])
words = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=9).filter(str.strip)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | texts
    | st.binary(max_size=4)
    | st.tuples(texts, st.integers())
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=5
)
mappings = st.dictionaries(texts, values, max_size=3)
maybe = st.none() | texts
parts = st.builds(
    ContentPart,
    type=st.sampled_from(["image", "audio", "file", "thinking", "opaque"]),
    text=maybe,
    url=maybe,
    data=maybe,
    mime_type=maybe,
    name=maybe,
    extra=mappings,
) | st.builds(ContentPart, type=st.just("text"), text=texts, extra=mappings)
calls = st.builds(ToolCall, name=texts, arguments=mappings | texts, id=maybe)
times = st.datetimes(
    datetime(1900, 1, 1),  # noqa: DTZ001 - hypothesis adds the time zone
    datetime(2200, 1, 1),  # noqa: DTZ001 - the same
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=9)), timezone(-timedelta(hours=3, minutes=30))]),
).map(lambda time: time.replace(fold=0))
any_message = st.builds(
    Message,
    role=st.sampled_from(list(Role)),
    content=maybe | st.lists(parts, max_size=3).map(tuple),
    tool_calls=st.lists(calls, max_size=2).map(tuple),
    tool_call_id=maybe,
    name=maybe,
    id=words,
    created_at=times,
    metadata=mappings,
    origin=st.none() | st.builds(Origin, format=words, json=words),
)

STORED = {"seq": 1, "revision": 1, "branch": 0, "channel": None}
"""The columns that a store adds to a message's row."""


@given(any_message)
@example(Message(Role.USER, None, id="a", created_at=NEW_YEAR))
@example(Message(Role.USER, "", id="a", created_at=NEW_YEAR))
@example(Message(Role.USER, (), id="a", created_at=NEW_YEAR))
def test_any_message_survives_its_row(message: Message) -> None:
    """Every field comes back equal and of the same type, and every database can store the row."""
    row = message_row(CountedMessage(message, 5, "test/1"))
    assert all("\x00" not in value and value.encode() is not None for value in row.values() if isinstance(value, str))
    back = stored_from_row([{**row, **STORED}[name] for name in MESSAGE_COLUMNS])
    assert back == StoredMessage(message, 1, 5, "test/1")
    assert repr(back.message.content) == repr(message.content)
    assert repr(back.message.metadata) == repr(message.metadata)


@pytest.fixture(scope="module")
def stores(postgres_database: Callable[[], str]) -> Iterator[list[SqlStore]]:
    """Yield a store on SQLite in memory and one on PostgreSQL."""
    both = [SqlStore(), SqlStore(postgres_database())]
    yield both
    for store in both:
        store.close()


_numbers = count()
several = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(messages=st.lists(any_message, min_size=1, max_size=4, unique_by=lambda message: message.id))
@several
def test_any_messages_survive_a_database(stores: list[SqlStore], messages: list[Message]) -> None:
    key = SessionKey(f"round trip {next(_numbers)}")
    for store in stores:
        store.append(key, [CountedMessage(message, 1, "test/1") for message in messages])
        assert [stored.message for stored in store.read(key)] == messages


message_ids = st.sampled_from([f"m{number}" for number in range(8)])
small_messages = st.builds(
    lambda name, role, text, tokens, calls: CountedMessage(
        Message(role, text, id=name, created_at=NEW_YEAR, tool_calls=calls), tokens, "test/1"
    ),
    message_ids,
    st.sampled_from(list(Role)),
    st.sampled_from(["one", "two", None]),
    st.integers(0, 9),
    st.sampled_from([(), (ToolCall("f", {}, "c"),)]),
)
keys = st.sampled_from([("a", "u"), ("a", "u"), ("a", None), ("b", None)])
optional = st.none() | st.integers(0, 12)
appends = st.tuples(
    st.just("append"), keys, st.lists(small_messages, max_size=4),
    st.fixed_dictionaries({"max_messages": st.none() | st.none() | st.integers(1, 6)}),
)  # fmt: skip
removals = st.tuples(st.just("remove"), keys, st.lists(message_ids, max_size=3))
operations = st.one_of(
    appends,
    st.tuples(
        st.just("read"), keys, st.fixed_dictionaries({"limit": optional, "before": optional, "after": optional}),
    ),
    st.tuples(st.just("read"), keys, st.fixed_dictionaries({"ids": st.lists(message_ids, max_size=3)})),
    removals,
    st.tuples(st.just("delete"), keys, st.fixed_dictionaries({"keep_session": st.booleans()})),
    st.tuples(st.just("get"), keys),
)  # fmt: skip


def result_of(store: ConversationStore, caller: str, operation: Any) -> object:
    """Return the result of a call without times, or the name of its error."""
    name, (session_id, user_id), *arguments = operation
    named = arguments.pop() if arguments and isinstance(arguments[-1], dict) else {}
    key = SessionKey(session_id, caller, user_id)
    try:
        result = getattr(store, name)(key, *arguments, **named)
    except (InvalidInputError, SessionNotFoundError) as error:
        return type(error)
    if name == "get" and result is not None:
        return replace(result, created_at=NEW_YEAR, updated_at=NEW_YEAR)
    return result


@given(sequence=st.lists(operations, min_size=1, max_size=25))
@several
def test_any_operations_do_the_same_everywhere(stores: list[SqlStore], sequence: list[Any]) -> None:
    """SQLite and PostgreSQL answer each call alike, and records always agree with the messages."""
    caller = f"caller {next(_numbers)}"
    sqlite, postgres = stores
    for operation in sequence:
        assert result_of(sqlite, caller, operation) == result_of(postgres, caller, operation)
    pages = [store.page(caller).conversations for store in stores]
    assert [record.key for record in pages[0]] == [record.key for record in pages[1]]
    for record in pages[0]:
        stored = sqlite.read(record.key)
        assert record.message_count == len(stored) == len({one.seq for one in stored})
        assert record.total_tokens == sum(one.tokens for one in stored)
        assert record.tool_calls_count == sum(len(one.message.tool_calls) for one in stored)


@given(sequence=st.lists(appends | removals, max_size=20))
@several
def test_a_store_against_a_model(stores: list[SqlStore], sequence: list[Any]) -> None:
    """A store without a cap holds exactly the newest content of each id, in the order of first arrival."""
    store, key = stores[0], SessionKey(f"model {next(_numbers)}")
    model: dict[str, CountedMessage] = {}
    for name, _, argument, *_ in sequence:
        if name == "append":
            roles = {(one.message.id, one.message.role) for one in argument}
            if len(roles) > len({message_id for message_id, _ in roles}):
                with pytest.raises(InvalidInputError, match="an id of its own"):
                    store.append(key, argument)
                continue
            store.append(key, argument)
            for one in argument:
                known = model.get(one.message.id)
                same = known and (known.message.role, known.message.text, known.message.tool_calls) == (
                    one.message.role, one.message.text, one.message.tool_calls,
                )  # fmt: skip
                if not same:
                    model[one.message.id] = one
        else:
            assert store.remove(key, argument) == len({one for one in argument if model.pop(one, None)})
        assert [(one.message, one.tokens) for one in store.read(key)] == [
            (one.message, one.tokens) for one in model.values()
        ]
