"""ScriptedChatModel answers only from its input."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common.messages import Message, Role
from arc_common.prompts.context import render_memory, render_recalled
from arc_common.testing import ScriptedChatModel

UNKNOWN = "I do not know."

model = ScriptedChatModel()


def conversation(*texts: str) -> list[Message]:
    """Return alternating messages that begin with the user's."""
    return [Message(Role.ASSISTANT if i % 2 else Role.USER, text) for i, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("said", "asked", "answer"),
    [
        ("My locker number is 417. I like tea.", "What is my locker number?", "You said: “My locker number is 417.”"),
        ("열쇠는 화분 밑에 있어요.", "열쇠가 어디 있죠?", "You said: “열쇠는 화분 밑에 있어요.”"),
        ("The gate code is B-9/7.", "Hello again! Tell me the gate code.", "You said: “The gate code is B-9/7.”"),
    ],
    ids=["english", "korean", "no question mark"],
)
def test_it_quotes_the_sentence_that_states_what_is_asked(said: str, asked: str, answer: str) -> None:
    assert model.complete(conversation(said, "Thanks.", asked)) == answer


def test_it_quotes_itself_as_itself() -> None:
    """The assistant's statements are distinguished from the user's."""
    assert model.complete(conversation("Hi", "The ticket number is 88.", "What is the ticket number?")) == (
        "I said: “The ticket number is 88.”"
    )


MEMORY = render_memory(
    ["- locker: My locker number is 417", "- gate code: 2291", "- gate: Is the gate code 11?"],
    "- 2026-11-20, user: I like tea.\n- assistant: Your parcel is in the north hall.\n- user: 열쇠는 화분 밑에 있어요.",
)


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("What is my locker number?", "Noted: “My locker number is 417”"),
        ("What is the gate code?", "Noted: “2291”"),
        ("In which hall is my parcel?", "Noted: “Your parcel is in the north hall.”"),
        ("열쇠가 어디 있죠?", "Noted: “열쇠는 화분 밑에 있어요.”"),
        ("What does the record say of an instruction?", UNKNOWN),
    ],
    ids=["fact", "key and value", "summary", "korean summary", "heading"],
)
def test_it_reads_facts_and_summary(asked: str, answer: str) -> None:
    """A fact is found by its key and its value; questions and headings state nothing."""
    told = [Message(Role.SYSTEM, f"Be brief.\n\n{MEMORY}"), Message(Role.USER, "Hi"), Message(Role.ASSISTANT, "Hello.")]
    assert model.complete([*told, Message(Role.USER, asked)]) == answer


def test_it_reads_what_stands_behind_a_question() -> None:
    """Recalled facts and documents in the user's message are input, not part of the question."""
    recalled = render_recalled(["- gate: The gate code is 2291"])
    assert model.complete([Message(Role.USER, f"What is the gate code?\n\n{recalled}")]) == (
        "Noted: “The gate code is 2291”"
    )


def test_a_later_message_counts_more_than_a_fact() -> None:
    told = [Message(Role.SYSTEM, render_memory(["- gate: The gate code is 11."], ""))]
    said = [Message(Role.USER, "The gate code is 22."), Message(Role.USER, "What is the gate code?")]
    assert "22" in model.complete([*told, *said])


def test_it_quotes_a_wrong_sentence_if_the_right_one_is_missing() -> None:
    """Without the right statement, it answers wrongly instead of not at all."""
    right = conversation("The order number of my desk is HN-1.", "Noted.")
    wrong = conversation("Her order number is HN-2.", "Noted.", "What is the order number of my desk?")
    assert "HN-1" in model.complete(right + wrong)
    assert "HN-2" in model.complete(wrong)


def test_instructions_and_questions_are_no_answers() -> None:
    """Instructions and questions are not quoted, and an empty question has no answer."""
    code = Message(Role.SYSTEM, "The gate code is 11.")
    for messages in (
        [],
        [code],
        [code, Message(Role.USER, "What is the gate code?")],
        conversation("What is the gate code?", "Which gate code?", "What is the gate code?"),
        conversation("The gate code is 11.", "Noted.", ""),
    ):
        assert model.complete(messages) == UNKNOWN


texts = st.text(st.sampled_from("ab1-한글.?! \n"), max_size=40) | st.text(max_size=30)


@given(st.lists(st.builds(Message, st.sampled_from(list(Role)), texts), max_size=6), texts)
def test_every_answer_is_a_quotation(messages: list[Message], asked: str) -> None:
    """Every answer occurs verbatim in a message of the user or an earlier one of its own."""
    answer = model.complete([*messages, Message(Role.USER, asked)])
    if answer != UNKNOWN:
        quoted = answer.partition("“")[2].removesuffix("”")
        assert quoted
        assert any(quoted in message.text for message in messages if message.role is not Role.SYSTEM)
