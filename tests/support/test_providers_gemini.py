"""Requests that Gemini's `generateContent` refuses, and requests that it accepts."""

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
    "contents missing": ("contents", None),
    "assistant as a role": ("role", [USER, {"role": "assistant", "parts": [TEXT]}, USER]),
    "system as a role": ("role", [{"role": "system", "parts": [TEXT]}, USER]),
    "model first": ("first", [model(TEXT), USER]),
    "model last": ("last", [USER, model(TEXT)]),
    "no parts": ("parts", [user()]),
    "no parts in the middle": ("parts", [USER, model(), USER]),
    "empty text": ("text", [user({"text": ""})]),
    "a part without a datum": ("part", [user({})]),
    "a part with two data": ("part", [user({**TEXT, **call()})]),
    "an image without its bytes": ("part", [user({"inlineData": {"mimeType": "image/png"}})]),
    "a file without its type": ("part", [user({"fileData": {"fileUri": "https://a/b.pdf"}})]),
    "arguments that are text": ("part", [USER, model(call(args="Oslo")), user(response())]),
    "a response that is text": ("part", [USER, model(call()), user(response(value="rain"))]),
    "a call by the user": ("part", [user(call()), user(response())]),
    "a response by the model": ("part", [USER, model(call()), model(response())]),
    "a name that begins with a digit": ("name", [USER, model(call("1st")), user(response("1st"))]),
    "a name of 65 characters": ("name", [USER, model(call("a" * 65)), user(response("a" * 65))]),
    "a response without a name": ("name", [USER, model(call()), user(response(""))]),
    "a call first": ("call_turn", [model(call()), user(response())]),
    "a call behind another model turn": ("call_turn", [USER, model(TEXT), model(call()), user(response())]),
    "a call without a response": ("response_turn", [USER, model(call()), USER]),
    "a response without a call": ("response_turn", [USER, user(response())]),
    "a response behind another turn": ("response_turn", [USER, model(call()), USER, user(response())]),
    "one response to two calls": ("count", [USER, model(call(), call()), user(response())]),
    "two responses to one call": ("count", [USER, model(call()), user(response(), response())]),
    "responses in two turns": ("count", [USER, model(call(), call()), user(response()), user(response())]),
    "a response to another function": ("count", [USER, model(call()), user(response("time"))]),
    "a response to another id": ("count", [USER, model(call(id="a")), user(response(id="b"))]),
}

GOOD = {
    "one user turn": [USER],
    "users in a row": [USER, USER],
    "parallel calls": [USER, model(call(id="a"), call(id="b")), user(response(id="b"), response(id="a"))],
    "calls without ids": [USER, model(call(), call("time")), user(response(), response("time")), USER],
    "words before a call": [USER, model({"text": "Let me see."}, call()), user(response())],
    "call after call": [USER, model(call()), user(response()), model(call()), user(response())],
    "an image": [user({"inlineData": {"mimeType": "image/png", "data": "aGk="}}, TEXT)],
}


def test_what_the_api_refuses_is_found():
    """By the rule that it breaks."""
    for name, (rule, contents) in BAD.items():
        assert rule in {violation.rule for violation in gemini.violations({"contents": contents})}, name


@pytest.mark.parametrize("parts", [[], [{}], [{"text": ""}]], ids=str)
def test_an_empty_system_instruction_is_found(parts):
    """The API wants its parts to say something."""
    assert gemini.violations({"systemInstruction": {"parts": parts}, "contents": [USER]})[0].rule == "text"


def test_what_the_api_accepts_passes():
    for name, contents in GOOD.items():
        assert gemini.violations({"systemInstruction": {"parts": [TEXT]}, "contents": contents}) == [], name
