"""Requests that Anthropic's Messages API rejects, and requests that it accepts."""

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
    "system among the messages": ("role", [{"role": "system", "content": "be brief"}, USER]),
    "assistant first": ("first", [assistant(text()), USER]),
    "empty user message": ("content", [{"role": "user", "content": ""}]),
    "empty assistant message before the end": ("content", [USER, assistant(), USER]),
    "empty text block": ("text", [user(text(""))]),
    "nothing but white space": ("text", [user(text(" \n"))]),
    "white space at the very end": ("trailing", [USER, assistant(text("The weather is "))]),
    "call by the user": ("block", [user(use())]),
    "result by the assistant": ("block", [USER, assistant(use()), user(result()), assistant(result())]),
    "image by the assistant": (
        "block",
        [USER, assistant({"type": "image", "source": {"type": "url", "url": "https://a/b.png"}})],
    ),
    "input that is text": ("block", [USER, assistant(use(arguments="Oslo")), user(result())]),
    "id with a colon": ("id", [USER, assistant(use("functions.Bash:0")), user(result("functions.Bash:0"))]),
    "two calls with one id": ("duplicate", [USER, assistant(use(), use()), user(result(), result())]),
    "call without a result": ("unanswered", [USER, assistant(use()), USER]),
    "one of two calls without a result": ("unanswered", [USER, assistant(use(), use("c2")), user(result("c2"))]),
    "words between calls and results": ("unanswered", [USER, assistant(use(), text()), user(result())]),
    "result without a call": ("orphan", [user(result())]),
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


def test_what_the_api_refuses_is_found():
    """Each invalid request is reported with the rule that it breaks."""
    for name, (rule, messages) in BAD.items():
        assert rule in {violation.rule for violation in anthropic.violations({"messages": messages})}, name


def test_an_empty_block_in_system_is_found():
    """System text may consist of blocks, too."""
    assert anthropic.violations({"system": [text("")], "messages": [USER]})[0].rule == "text"
