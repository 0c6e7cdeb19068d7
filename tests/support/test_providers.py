"""Rendering of arc's messages as requests of the three providers."""

from arc_common import ContentPart, Message, ToolCall
from tests.support.providers import anthropic, gemini, openai

USER = Message("user", "What is the weather?")
CALL = Message("assistant", "Let me see.", tool_calls=(ToolCall("weather", {"city": "Oslo"}, id="c1"),))
RESULT = Message("tool", "rain", tool_call_id="c1")
PARALLEL = Message("assistant", None, tool_calls=(ToolCall("weather", id="c1"), ToolCall("time", id="c2")))

GOOD = {
    "one message": [USER],
    "a loop": [USER, CALL, RESULT],
    "parallel calls, answered the other way round": [USER, PARALLEL, Message("tool", "9", tool_call_id="c2"), RESULT],
    "calls without ids": [
        USER,
        Message("assistant", "", tool_calls=(ToolCall("weather"), ToolCall("time"))),
        Message("tool", "rain"),
        Message("tool", "9"),
        Message("assistant", "", tool_calls=(ToolCall("weather"),)),
        Message("tool", None),
    ],
    "several system messages": [Message("system", "Be brief."), Message("system", "Be kind."), USER],
    "neighbours of the same role": [USER, USER, Message("assistant", "rain"), CALL, RESULT, USER],
    "an image and a file": [
        Message(
            "user",
            (
                ContentPart("image", url="https://a/b.png", mime_type="image/png"),
                ContentPart("file", data="aGk=", mime_type="application/pdf", name="a.pdf"),
                ContentPart("text", text="?"),
            ),
        )
    ],
    "thinking, signed and not": [
        USER,
        Message(
            "assistant",
            (
                ContentPart("thinking", text="hm", extra={"signature": "s"}),
                ContentPart("thinking", text="hm"),
                ContentPart("opaque", name="box", extra={"a": 1}),
                ContentPart("text", text="Yes."),
            ),
        ),
        USER,
    ],
    "arguments that are no JSON": [
        USER,
        Message("assistant", None, tool_calls=(ToolCall("weather", "{city:", id="c1"),)),
        RESULT,
    ],
}  # fmt: skip

BAD = {
    "nothing": ([], {"anthropic", "gemini", "openai"}),
    "an orphaned result": ([USER, RESULT], {"anthropic", "gemini", "openai"}),
    "an unanswered call": ([USER, CALL, USER], {"anthropic", "gemini", "openai"}),
    "a result that came too late": ([USER, CALL, USER, RESULT], {"anthropic", "gemini", "openai"}),
    "a result too many": ([USER, CALL, RESULT, RESULT], {"anthropic", "gemini", "openai"}),
    "an answer without content": ([USER, Message("assistant", None), USER], {"anthropic", "gemini", "openai"}),
    "an empty question": ([Message("user", "")], {"anthropic", "gemini"}),
    "a blank question": ([Message("user", " ")], {"anthropic"}),
    "the assistant first": ([Message("assistant", "Hello."), USER], {"anthropic", "gemini"}),
    "an id used twice": ([USER, CALL, RESULT, CALL, RESULT], {"anthropic"}),
    "an id of another provider": (
        [
            USER,
            Message("assistant", None, tool_calls=(ToolCall("bash", id="bash:0"),)),
            Message("tool", "", tool_call_id="bash:0"),
        ],
        {"anthropic"},
    ),
}  # fmt: skip


def refusing(messages):
    """Return the providers that reject the messages."""
    providers = {"anthropic": anthropic, "gemini": gemini, "openai": openai}
    return {name for name, provider in providers.items() if provider.violations(provider.render(messages))}


def test_each_provider_takes_sound_conversations_and_refuses_broken_ones_by_its_rules():
    """Rendering repairs nothing."""
    for name, messages in GOOD.items():
        assert refusing(messages) == set(), name
    for name, (messages, providers) in BAD.items():
        assert refusing(messages) == providers, name


def test_ids_that_are_made_are_nobody_elses():
    """A generated call id differs from given ones before and after it."""
    unnamed = Message("assistant", None, tool_calls=(ToolCall("weather"),))
    named = [Message("assistant", None, tool_calls=(ToolCall("time", id=f"call_{n}"),)) for n in range(3)]
    answers = [Message("tool", "9", tool_call_id=f"call_{n}") for n in range(3)]
    loops = [message for pair in zip(named, answers, strict=True) for message in pair]
    for messages in (
        [USER, unnamed, Message("tool", "rain"), *loops],
        [USER, *loops, unnamed, Message("tool", "rain")],
    ):
        assert refusing(messages) == set()


def test_anthropic_gets_system_apart_and_results_in_the_users_next_message():
    """All results of a turn's calls are in one message, before the user's text."""
    later = Message("user", "And?")
    request = anthropic.render([Message("system", "a"), USER, Message("system", "b"), CALL, RESULT, later])
    assert request == {
        "system": "a\n\nb",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "What is the weather?"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "Let me see."},
                    {"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Oslo"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "rain"}]},
                    {"type": "text", "text": "And?"},
                ],
            },
        ],
    }


def test_gemini_gets_responses_by_name():
    """The responses to a turn's calls are a content of their own."""
    request = gemini.render([Message("system", "s"), USER, CALL, RESULT, USER])
    assert request["systemInstruction"] == {"parts": [{"text": "s"}]}
    assert [content["role"] for content in request["contents"]] == ["user", "model", "user", "user"]
    assert request["contents"][2]["parts"] == [
        {"functionResponse": {"name": "weather", "response": {"result": "rain"}, "id": "c1"}}
    ]
