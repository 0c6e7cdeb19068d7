"""Requests that OpenAI's chat completions reject, and requests that they accept."""

from tests.support.providers import openai

USER = {"role": "user", "content": "What is the weather?"}


def call(call_id="c1", name="weather", arguments='{"city": "Oslo"}'):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def calling(*calls, content=None):
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def result(call_id="c1", content="rain"):
    return {"role": "tool", "tool_call_id": call_id, "content": content}


BAD = {
    "no messages": ("messages", []),
    "unknown role": ("role", [{"role": "model", "content": "hi"}]),
    "assistant with neither content nor calls": ("content", [USER, {"role": "assistant", "content": None}]),
    "content that is a number": ("content", [{"role": "user", "content": 7}]),
    "image from the assistant": (
        "part",
        [USER, {"role": "assistant", "content": [{"type": "image_url", "image_url": {"url": "https://a/b.png"}}]}],
    ),
    "text part without text": ("part", [{"role": "user", "content": [{"type": "text"}]}]),
    "name with a space": ("name", [{"role": "user", "content": "hi", "name": "Ana Maria"}]),
    "calls by the user": ("tool_calls", [{**USER, "tool_calls": [call()]}]),
    "function name with a dot": ("tool_calls", [USER, calling(call(name="a.b")), result()]),
    "arguments that are an object": ("tool_calls", [USER, calling(call(arguments={"city": "Oslo"})), result()]),
    "call without an id": ("id", [USER, calling(call(call_id=None))]),
    "result without an id": ("id", [USER, calling(call()), result(None), result()]),
    "call without a result": ("unanswered", [USER, calling(call()), USER]),
    "one of two calls without a result": ("unanswered", [USER, calling(call(), call("c2")), result("c2"), USER]),
    "result at the head": ("orphan", [result(), USER]),
    "result answered twice": ("duplicate", [USER, calling(call()), result(), result()]),
    "two calls with one id": ("duplicate", [USER, calling(call(), call()), result(), result()]),
}


def test_what_the_api_refuses_is_found():
    """Each invalid request is reported with the rule that it breaks."""
    for name, (rule, messages) in BAD.items():
        assert rule in {violation.rule for violation in openai.violations({"messages": messages})}, name
