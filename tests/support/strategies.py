"""Hypothesis strategies of conversations: interleaved, dangling, orphaned and empty messages."""

from hypothesis import strategies as st

from arc_common.messages import Message, Role, ToolCall

call_ids = st.sampled_from(["c1", "c2", "c3", None])
texts = st.sampled_from(["", "hello", "안녕하세요 여러분", "a longer text with several words in it", None])


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """Draw a message of any role; call ids are few, so that they repeat."""
    role = draw(st.sampled_from(list(Role)))
    calls = ()
    if role is Role.ASSISTANT:
        calls = tuple(ToolCall("look_up", {"q": n}, id=draw(call_ids)) for n in range(draw(st.integers(0, 3))))
    return Message(
        role,
        draw(texts),
        tool_calls=calls,
        tool_call_id=draw(call_ids) if role is Role.TOOL else None,
    )


@st.composite
def conversations(draw: st.DrawFn, max_size: int = 24) -> list[Message]:
    """Draw messages with ids, in any order."""
    from dataclasses import replace

    drawn = draw(st.lists(messages(), max_size=max_size))
    return [replace(message, id=f"m{i}") for i, message in enumerate(drawn)]
