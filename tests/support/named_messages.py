"""Conversations whose messages have names, what each costs, which are left, and a model that fails to sum them up."""

from arc_common.messages import Message, Origin, ToolCall
from arc_common.tokens.compression import Compression


def one_each(_: Message) -> int:
    return 1


def characters(message: Message) -> int:
    return len(message.text)


def chat(*roles: str) -> list[Message]:
    return [Message(role, f"{role} {i}", id=str(i)) for i, role in enumerate(roles)]


def agent(turns: int, *, result: str = "r" * 100) -> list[Message]:
    """Turns of user, call, result and answer, named u0 c0 r0 a0 u1 and so on."""
    messages = []
    for n in range(turns):
        messages += [
            Message("user", f"question {n}", id=f"u{n}"),
            Message("assistant", None, tool_calls=(ToolCall("look_up", {}, id=f"call{n}"),), id=f"c{n}"),
            Message("tool", result, tool_call_id=f"call{n}", id=f"r{n}", name="look_up", origin=Origin("x", "{}")),
            Message("assistant", f"answer {n}", id=f"a{n}"),
        ]
    return messages


def ids(result: Compression) -> list[str | None]:
    return [message.id for message in result.messages]


def failing(_: object) -> str:
    raise ConnectionError("the model is away")
