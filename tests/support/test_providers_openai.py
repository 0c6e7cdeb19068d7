"""Requests that OpenAI's chat completions refuse, and requests that they accept."""

from tests.support.providers import Violation, openai

USER = {"role": "user", "content": "What is the weather?"}


def call(call_id="c1", name="weather", arguments='{"city": "Oslo"}'):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def calling(*calls, content=None):
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def result(call_id="c1", content="rain"):
    return {"role": "tool", "tool_call_id": call_id, "content": content}


BAD = {
    "no messages": ("messages", []),
    "messages missing": ("messages", None),
    "unknown role": ("role", [{"role": "model", "content": "hi"}]),
    "user without content": ("content", [{"role": "user", "content": None}]),
    "assistant with neither content nor calls": ("content", [USER, {"role": "assistant", "content": None}]),
    "tool without content": ("content", [USER, calling(call()), result(content=None)]),
    "empty list of parts": ("content", [{"role": "user", "content": []}]),
    "content that is a number": ("content", [{"role": "user", "content": 7}]),
    "image from the assistant": (
        "part",
        [USER, {"role": "assistant", "content": [{"type": "image_url", "image_url": {"url": "https://a/b.png"}}]}],
    ),
    "image from a tool": (
        "part",
        [USER, calling(call()), result(content=[{"type": "image_url", "image_url": {"url": "https://a/b.png"}}])],
    ),
    "image without an address": ("part", [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]),
    "text part without text": ("part", [{"role": "user", "content": [{"type": "text"}]}]),
    "name with a space": ("name", [{"role": "user", "content": "hi", "name": "Ana Maria"}]),
    "calls by the user": ("tool_calls", [{**USER, "tool_calls": [call()]}]),
    "empty list of calls": ("tool_calls", [USER, {"role": "assistant", "content": "x", "tool_calls": []}]),
    "function name with a dot": ("tool_calls", [USER, calling(call(name="a.b")), result()]),
    "function name of 65 characters": ("tool_calls", [USER, calling(call(name="a" * 65)), result()]),
    "arguments that are an object": ("tool_calls", [USER, calling(call(arguments={"city": "Oslo"})), result()]),
    "call without an id": ("id", [USER, calling(call(call_id=None))]),
    "id of 41 characters": ("id", [USER, calling(call("c" * 41))]),
    "result without an id": ("id", [USER, calling(call()), result(None), result()]),
    "call without a result": ("unanswered", [USER, calling(call()), USER]),
    "call at the end": ("unanswered", [USER, calling(call())]),
    "one of two calls without a result": ("unanswered", [USER, calling(call(), call("c2")), result("c2"), USER]),
    "result behind the next user message": ("orphan", [USER, calling(call()), USER, result()]),
    "result at the head": ("orphan", [result(), USER]),
    "result of an older call": (
        "orphan",
        [USER, calling(call()), result(), calling(call("c2")), result(), result("c2")],
    ),
    "result answered twice": ("duplicate", [USER, calling(call()), result(), result()]),
    "two calls with one id": ("duplicate", [USER, calling(call(), call()), result(), result()]),
}

GOOD = {
    "one user message": [USER],
    "system messages anywhere": [USER, {"role": "system", "content": "be brief"}, USER],
    "parallel calls, answered in any order": [USER, calling(call(), call("c2")), result("c2"), result(), USER],
    "an id that is used again in a later turn": [USER, calling(call()), result(), USER, calling(call()), result()],
    "a call with words": [USER, calling(call(), content="Let me see."), result()],
    "an empty answer of a tool": [USER, calling(call()), result(content="")],
    "users in a row": [USER, USER, {**USER, "name": "민수"}],
    "an image": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://a/b.png"}}]}],
}


def test_what_the_api_refuses_is_found():
    """By the rule that it breaks."""
    for name, (rule, messages) in BAD.items():
        assert rule in {violation.rule for violation in openai.violations({"messages": messages})}, name


def test_what_the_api_accepts_passes():
    for name, messages in GOOD.items():
        assert openai.violations({"messages": messages}) == [], name


def test_a_violation_names_rule_message_and_reason():
    """As a reader of a failed test wants it."""
    assert openai.violations({"messages": [USER, calling(call("c7"))]}) == [
        Violation("unanswered", 1, "no tool message answers c7")
    ]
