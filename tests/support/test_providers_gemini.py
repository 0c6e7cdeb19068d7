"""Requests that Gemini's `generateContent` rejects, and requests that it accepts."""

import pytest

from tests.support.providers import gemini


def call(name="weather", args=None, **rest):
    return {"functionCall": {"name": name, "args": {} if args is None else args, **rest}}


def response(name="weather", value=None, **rest):
    return {"functionResponse": {"name": name, "response": {"result": "rain"} if value is None else value, **rest}}


def user(*parts):
    return {"role": "user", "parts": list(parts)}


def model(*parts):
    return {"role": "model", "parts": list(parts)}


TEXT = {"text": "What is the weather?"}
USER = user(TEXT)

BAD = {
    "no contents": ("contents", []),
    "assistant as a role": ("role", [USER, {"role": "assistant", "parts": [TEXT]}, USER]),
    "model first": ("first", [model(TEXT), USER]),
    "model last": ("last", [USER, model(TEXT)]),
    "no parts": ("parts", [user()]),
    "empty text": ("text", [user({"text": ""})]),
    "a part with two data": ("part", [user({**TEXT, **call()})]),
    "an image without its bytes": ("part", [user({"inlineData": {"mimeType": "image/png"}})]),
    "arguments that are text": ("part", [USER, model(call(args="Oslo")), user(response())]),
    "a call by the user": ("part", [user(call()), user(response())]),
    "a response by the model": ("part", [USER, model(call()), model(response())]),
    "a name that begins with a digit": ("name", [USER, model(call("1st")), user(response("1st"))]),
    "a call behind another model turn": ("call_turn", [USER, model(TEXT), model(call()), user(response())]),
    "a call without a response": ("response_turn", [USER, model(call()), USER]),
    "a response without a call": ("response_turn", [USER, user(response())]),
    "one response to two calls": ("count", [USER, model(call(), call()), user(response())]),
    "a response to another function": ("count", [USER, model(call()), user(response("time"))]),
    "a response to another id": ("count", [USER, model(call(id="a")), user(response(id="b"))]),
}


def test_what_the_api_refuses_is_found():
    """Each invalid request is reported with the rule that it breaks."""
    for name, (rule, contents) in BAD.items():
        assert rule in {violation.rule for violation in gemini.violations({"contents": contents})}, name


@pytest.mark.parametrize("parts", [[], [{}], [{"text": ""}]], ids=str)
def test_an_empty_system_instruction_is_found(parts):
    """The API rejects a system instruction without text."""
    assert gemini.violations({"systemInstruction": {"parts": parts}, "contents": [USER]})[0].rule == "text"
