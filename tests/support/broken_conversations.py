"""Hypothesis strategies of conversations for compression: twelve scripts, several writers, broken tool calls."""

from dataclasses import replace

from hypothesis import strategies as st

from arc_common.messages import ContentPart, Message, Origin, Role, ToolCall

SENTENCES = [
    "The order is due on Monday.",
    "주문은 월요일에 도착합니다.",
    "订单星期一到。",
    "注文は月曜日に届きます。",
    "Заказ придёт в понедельник.",
    "الطلب يصل يوم الاثنين.",
    "ההזמנה מגיעה ביום שני.",
    "ऑर्डर सोमवार को आएगा।",
    "คำสั่งซื้อจะมาถึงวันจันทร์",
    "Η παραγγελία φτάνει τη Δευτέρα.",
    "আদেশ সোমবার আসবে।",
    "👩‍👩‍👧 🇩🇪🇫🇷 e\u0301 👍🏽",
]
ORIGIN = Origin("langchain", "{}")

call_ids = st.sampled_from(["c1", "c2", "c3", None])
words = st.sampled_from(["", *SENTENCES]) | st.builds(str.__mul__, st.sampled_from(SENTENCES), st.integers(2, 60))
parts = st.lists(
    st.builds(ContentPart, st.just("text"), text=words)
    | st.just(ContentPart("image", url="https://example.org/a.png"))
    | st.just(ContentPart("thinking", text="hm")),
    max_size=3,
).map(tuple)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """Draw a message of any role; call ids are few, so that they repeat."""
    role = draw(st.sampled_from(list(Role)))
    calls = ()
    if role is Role.ASSISTANT:
        calls = tuple(ToolCall("look_up", {"q": n}, id=draw(call_ids)) for n in range(draw(st.integers(0, 3))))
    return Message(
        role,
        draw(words | parts | st.none()),
        tool_calls=calls,
        tool_call_id=draw(call_ids) if role is Role.TOOL else None,
        name=draw(st.sampled_from([None, "Ana", "Bo"])) if role is Role.USER else None,
        origin=draw(st.sampled_from([None, ORIGIN])),
    )


@st.composite
def exchanges(draw: st.DrawFn) -> list[Message]:
    """Draw a complete exchange with tools, perhaps with another message in between."""
    number = draw(st.integers(1, 3))
    ids = [f"p{draw(st.integers(0, 10**6))}.{n}" for n in range(number)]
    call = Message(Role.ASSISTANT, draw(words), tool_calls=tuple(ToolCall("look_up", {}, id=i) for i in ids))
    results = [Message(Role.TOOL, draw(words | parts), tool_call_id=i, origin=ORIGIN) for i in ids]
    between = draw(st.lists(messages(), max_size=1))
    return [call, *between, *draw(st.permutations(results))]


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """Draw messages with ids: random ones in any order, and well-formed turns."""
    pieces = st.lists(messages(), max_size=6) | exchanges() | st.builds(lambda text: [Message("user", text)], words)
    drawn = [message for piece in draw(st.lists(pieces, max_size=8)) for message in piece]
    return [replace(message, id=f"m{i}") for i, message in enumerate(drawn)]


def cost(message: Message) -> int:
    """Estimate a message's tokens; every message costs something."""
    content = message.content if isinstance(message.content, tuple) else ()
    return 2 + len(message.text) // 3 + sum(5 for part in content if part.type != "text") + 4 * len(message.tool_calls)
