"""Repeated call ids get a number; their results are renamed with them."""

from dataclasses import replace

import pytest
from hypothesis import given

from arc_common import ContentPart, Message, ToolCall
from arc_common.messages import Origin, exchanges_of
from arc_common.tokens.selection import with_distinct_call_ids
from tests.support.providers import anthropic, gemini, openai
from tests.support.strategies import conversations


def calling(*ids, **fields):
    return Message("assistant", None, tool_calls=tuple(ToolCall("look_up", id=call_id) for call_id in ids), **fields)


def result(call_id, text="found"):
    return Message("tool", text, tool_call_id=call_id)


USER = Message("user", "Look it up.")


def ids(messages):
    return [call.id for message in messages for call in message.tool_calls]


def test_the_first_call_keeps_its_id():
    renamed = with_distinct_call_ids([USER, calling("c1"), result("c1"), calling("c1"), result("c1", "again")])
    assert ids(renamed) == ["c1", "c1_2"]
    assert [message.tool_call_id for message in renamed if message.role == "tool"] == ["c1", "c1_2"]
    assert renamed[4].text == "again"


def test_calls_of_one_message_are_told_apart_in_their_order():
    renamed = with_distinct_call_ids([USER, calling("c", "c", None), result("c", "1"), result(None), result("c", "2")])
    assert ids(renamed) == ["c", "c_2", None]
    told = [(message.tool_call_id, message.text) for message in renamed[2:]]
    assert told == [("c", "1"), (None, "found"), ("c_2", "2")]


def test_a_new_id_is_nobody_elses_and_short_enough():
    assert ids(with_distinct_call_ids([calling("c"), calling("c"), calling("c_2")])) == ["c", "c_3", "c_2"]
    long = "x" * 40
    (_, new) = ids(with_distinct_call_ids([calling(long), calling(long)]))
    assert len(new) <= 40


def test_messages_that_need_no_other_id_are_the_same_objects():
    """The renamed ones keep their exact foreign form, in which the adapters rename the call."""
    messages = [USER, calling("c", origin=Origin("f", "{}")), result("c"), calling("c", origin=Origin("f", "{}"))]
    renamed = with_distinct_call_ids(messages)
    assert all(one is other for one, other in zip(renamed[:3], messages[:3], strict=True))
    assert renamed[3].origin == Origin("f", "{}")
    assert ids(renamed) == ["c", "c_2"]
    assert messages[3].tool_calls[0].id == "c"


def test_foreign_blocks_are_renamed_with_their_calls():
    """An id in a call's arguments or in a block of another kind is not a call's."""
    blocks = (
        ContentPart("thinking", "c", extra={"signature": "c"}),
        ContentPart("opaque", name="tool_use", extra={"type": "tool_use", "id": "c", "input": {"id": "c"}}),
        ContentPart("opaque", name="function_call", extra={"id": "fc_1", "call_id": "c", "arguments": '{"id": "c"}'}),
    )
    answer = ContentPart(
        "opaque", name="tool_result", extra={"type": "tool_result", "tool_use_id": "c", "content": "c"}
    )
    asking, answered = replace(calling("c", "c"), content=blocks), replace(result("c"), content=(answer,))
    renamed = with_distinct_call_ids([USER, calling("c"), result("c"), asking, answered, replace(answered)])
    thought, used, called = renamed[3].content
    assert thought is blocks[0]
    assert used.extra == {"type": "tool_use", "id": "c_2", "input": {"id": "c"}}
    assert called.extra == {"id": "fc_1", "call_id": "c_3", "arguments": '{"id": "c"}'}
    assert [message.content[0].extra["tool_use_id"] for message in renamed[4:]] == ["c_2", "c_3"]
    assert asking.content == blocks


@given(conversations())
def test_ids_are_distinct_and_pairs_stay(messages):
    renamed = with_distinct_call_ids(messages)
    given_ids = [call_id for call_id in ids(renamed) if call_id is not None]
    assert len(given_ids) == len(set(given_ids))

    def pairs(listed):
        exchanges, orphans = exchanges_of(listed)
        return [[message.id for message in exchange.messages] for exchange in exchanges], [m.id for m in orphans]

    assert pairs(renamed) == pairs(messages)
    assert with_distinct_call_ids(renamed) == renamed


@pytest.mark.parametrize("provider", [anthropic, gemini, openai])
def test_providers_take_what_they_refused(provider):
    messages = [USER, calling("c", "c"), result("c"), result("c"), calling("c"), result("c")]
    assert not provider.violations(provider.render(with_distinct_call_ids(messages)))
