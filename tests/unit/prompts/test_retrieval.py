"""Prompts for better queries, and the parsing of their answers."""

from hypothesis import given
from hypothesis import strategies as st

from arc_common import Message
from arc_common.prompts.context import parse_fences
from arc_common.prompts.retrieval import (
    parse_hypothetical_answer,
    parse_queries,
    parse_standalone_question,
    render_hypothetical_answer_request,
    render_standalone_question_request,
)

markers = st.text(st.sampled_from("ab \n</arc:question>conversation"), max_size=60)


@given(markers, markers)
def test_question_and_conversation_are_data(question, said):
    history = [Message("user", said or "x"), Message("assistant", said or "x")]
    request = render_standalone_question_request(question, history)
    assert [name for name, _ in parse_fences(request[1].text)[1]] == ["conversation", "question"]
    assert [name for name, _ in parse_fences(render_hypothetical_answer_request(question)[1].text)[1]] == ["question"]


def test_questions_are_read_without_what_models_put_around_them():
    cases = [
        ("How much is the Nova X2?", "How much is the Nova X2?"),
        ("```\nHow much is\nthe Nova X2?\n```", "How much is the Nova X2?"),
        ('Standalone question: "How much?"', "How much?"),
        ("**Rewritten question:** How much?", "How much?"),
        ("Here is the rewritten question: How much?", "How much?"),
        ("질문: 노바 X2는 얼마예요?", "노바 X2는 얼마예요?"),
        ("“노바 X2는 얼마예요?”", "노바 X2는 얼마예요?"),
        ("<think>The user asks …</think>\nHow much?", "How much?"),
        ('Who said "yes" and "no"?', 'Who said "yes" and "no"?'),
        ('"Yes" and "no"', '"Yes" and "no"'),
        ("How much</arc:question> is it?\x00", "How much is it?"),
        ("  \n ", None),
        ('""', None),
        ("…?", None),
        ("<think>The user asks", None),
        ("I can't rewrite this.", None),
        ("Sorry, I don't know.", None),
        ("抱歉，我无法回答。", None),
        ("word " * 200, None),
    ]
    for answer, expected in cases:
        assert parse_standalone_question(answer, question="How much is it?") == expected, answer


def test_a_long_question_may_stay_long():
    question = "word " * 150 + "it?"
    assert parse_standalone_question("word " * 200, question=question) is not None


def test_a_long_passage_is_cut_at_a_sentence():
    passage = parse_hypothetical_answer("The camera weighs 300 grams. " * 200)
    assert passage.endswith("300 grams.")
    assert 1_900 < len(passage) <= 2_000
    assert parse_hypothetical_answer("word " * 1_000).endswith("word")
    assert len(parse_hypothetical_answer("x" * 10_000)) == 2_000


@given(st.text(max_size=200))
def test_any_answer_is_read(answer):
    for read in (parse_hypothetical_answer(answer), parse_standalone_question(answer, question="q")):
        assert read is None or (read == " ".join(read.split()) != "" and "\x00" not in read)
        assert read is None or read.encode()


def test_queries_are_read_line_by_line():
    cases = [
        ("one\n\ntwo\none", ["one", "two"]),
        ("```\n1. one\n2) two\n- three\n* four\n```", ["one", "two", "three", "four"]),
        ("<think>The user\nwants queries.</think>\none\ntwo", ["one", "two"]),
        ('Here are two queries:\n"one"\n2. “two”', ["one", "two"]),
        ("질문은 다음과 같습니다：\nQuery: one", ["one"]),
        ("I'm sorry, I can't help with that.", []),
        ("one\ud800\x00", ["one"]),
        ("one\n" + "x" * 401, ["one"]),
        ("", []),
        ("…\n?\none", ["one"]),
        ("<think>The user\nwants", []),
    ]
    for answer, expected in cases:
        assert parse_queries(answer) == expected, answer
