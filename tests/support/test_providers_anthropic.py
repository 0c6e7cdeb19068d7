"""Requests that Anthropic's Messages API refuses, and requests that it accepts."""

from tests.support.providers import anthropic


def text(value="hi"):
    return {"type": "text", "text": value}


def use(call_id="c1", name="weather", arguments=None):
    return {"type": "tool_use", "id": call_id, "name": name, "input": {} if arguments is None else arguments}


def result(call_id="c1", content="rain"):
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


def user(*blocks):
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks):
    return {"role": "assistant", "content": list(blocks)}


USER = {"role": "user", "content": "What is the weather?"}

BAD = {
    "no messages": ("messages", []),
    "messages missing": ("messages", None),
    "system among the messages": ("role", [{"role": "system", "content": "be brief"}, USER]),
    "tool as a role": ("role", [USER, assistant(use()), {"role": "tool", "content": "rain"}]),
    "assistant first": ("first", [assistant(text()), USER]),
    "empty user message": ("content", [{"role": "user", "content": ""}]),
    "user message without blocks": ("content", [user(), assistant(text())]),
    "empty assistant message before the end": ("content", [USER, assistant(), USER]),
    "empty text block": ("text", [user(text(""))]),
    "empty text block beside a call": ("text", [USER, assistant(text(""), use()), user(result())]),
    "nothing but white space": ("text", [user(text(" \n"))]),
    "white space at the very end": ("trailing", [USER, assistant(text("The weather is "))]),
    "call by the user": ("block", [user(use())]),
    "result by the assistant": ("block", [USER, assistant(use()), user(result()), assistant(result())]),
    "image by the assistant": (
        "block",
        [USER, assistant({"type": "image", "source": {"type": "url", "url": "https://a/b.png"}})],
    ),
    "image without a source": ("block", [user({"type": "image"})]),
    "input that is text": ("block", [USER, assistant(use(arguments="Oslo")), user(result())]),
    "tool's name with a dot": ("block", [USER, assistant(use(name="a.b")), user(result())]),
    "id with a colon": ("id", [USER, assistant(use("functions.Bash:0")), user(result("functions.Bash:0"))]),
    "empty id": ("id", [USER, assistant(use("")), user(result(""))]),
    "two calls with one id": ("duplicate", [USER, assistant(use(), use()), user(result(), result())]),
    "an id used again in a later turn": (
        "duplicate",
        [USER, assistant(use()), user(result()), assistant(use()), user(result())],
    ),
    "two results for one call": ("duplicate", [USER, assistant(use()), user(result(), result())]),
    "call without a result": ("unanswered", [USER, assistant(use()), USER]),
    "call at the end": ("unanswered", [USER, assistant(use())]),
    "one of two calls without a result": ("unanswered", [USER, assistant(use(), use("c2")), user(result("c2"))]),
    "results in two messages": ("unanswered", [USER, assistant(use(), use("c2")), user(result()), user(result("c2"))]),
    "words between calls and results": ("unanswered", [USER, assistant(use(), text()), user(result())]),
    "result without a call": ("orphan", [user(result())]),
    "result of an older call": ("orphan", [USER, assistant(use()), user(result()), assistant(text()), user(result())]),
    "result behind words": ("order", [USER, assistant(use()), user(text(), result())]),
    "thinking without its signature": (
        "thinking",
        [USER, assistant({"type": "thinking", "thinking": "hm"}, text()), USER],
    ),
    "thinking at the end": (
        "thinking",
        [USER, assistant({"type": "thinking", "thinking": "hm", "signature": "s"}), USER],
    ),
}

GOOD = {
    "one user message": [USER],
    "neighbours of one role": [USER, USER, assistant(text()), assistant(text()), USER],
    "parallel calls, answered in any order": [USER, assistant(use(), use("c2")), user(result("c2"), result())],
    "words behind results": [USER, assistant(text(), use()), user(result(), text("and tomorrow?"))],
    "an empty answer of a tool": [USER, assistant(use()), user(result(content=[]))],
    "white space beside words": [user(text(" "), text("real"))],
    "an empty final assistant message": [USER, assistant()],
    "signed thinking before a call": [
        USER,
        assistant({"type": "thinking", "thinking": "hm", "signature": "s"}, use()),
        user(result()),
    ],
    "an image": [user({"type": "image", "source": {"type": "url", "url": "https://a/b.png"}}, text())],
}


def test_what_the_api_refuses_is_found():
    """By the rule that it breaks."""
    for name, (rule, messages) in BAD.items():
        assert rule in {violation.rule for violation in anthropic.violations({"messages": messages})}, name


def test_an_empty_block_in_system_is_found():
    """System text can be blocks too."""
    assert anthropic.violations({"system": [text("")], "messages": [USER]})[0].rule == "text"


def test_what_the_api_accepts_passes():
    for name, messages in GOOD.items():
        assert anthropic.violations({"system": "be brief", "messages": messages}) == [], name
