"""No part of a request repeats another."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arc_common import ArcSettings, ContextEngine, ContextWindow, HeuristicTokenCounter, Message
from arc_common.context import (
    Costs,
    Layers,
    LeftOut,
    RecalledLine,
    Request,
    ViewLimits,
    build_context_window,
    build_view,
)
from arc_common.context.repetition import Said, body, each_once
from arc_common.memories import Pin
from arc_common.text import analyze, analyze_query
from arc_common.text.sentences import sentences_of

FLIGHT = "Our flight to Lisbon is TP 1234 and leaves at 07:35."


def unsaid(carrier: str, line: str) -> tuple[str, str]:
    said = Said([line])
    said.add("fact f1", carrier)
    return said.unsaid(line)


@pytest.mark.parametrize(
    ("carrier", "line", "left"),
    [
        (FLIGHT, f"- 2026-11-20, user: {FLIGHT}", ""),
        (FLIGHT, "- 2026-11-20, user: our flight to Lisbon is TP 1234, and it leaves at 07:35!", ""),
        (FLIGHT, f"user: Good morning. {FLIGHT} We take two suitcases each.", "user: Good morning. … We take two "),
        ("예약 번호는 HN-48213이에요.", "- 2026-11-20, user: 예약 번호는 HN-48213이에요.", ""),
        (FLIGHT, f"user: Hey there! {FLIGHT} Where do we even start with it?", ""),
        ("I am Ann.", "- 2026-11-20, user: I am Ann", ""),
        (
            "We fly from Bergen with two large suitcases",
            "user: Oh, and by the way, we fly from Bergen with two large suitcases.",
            "",
        ),
        ("Our cat Miso eats no fish", "user: What is good for her? On another note, our cat Miso eats no fish.", ""),
        ("우리 가족은 광주에 살아요", "user: 참, 우리 가족은 광주에 살아요.", ""),
        ("", "", ""),
    ],
    ids=[
        "copy",
        "near-copy",
        "sentence",
        "korean",
        "question-left",
        "short",
        "lead-in",
        "lead-in-after-question",
        "lead-in-ko",
        "empty",
    ],
)
def test_what_was_said_is_left_out(carrier: str, line: str, left: str) -> None:
    """A repetition is removed whole or by the sentence, and the item that says the same is named."""
    shown, name = unsaid(carrier, line)
    assert shown.startswith(left) if left else not shown
    assert name == ("fact f1" if line else "")


@pytest.mark.parametrize(
    ("carrier", "line"),
    [
        ("I do eat meat on Sundays at home.", "- 2026-11-20, user: I don't eat meat on Sundays at home."),
        ("Send it to the office in Utrecht before Thursday.", "user: Send it to the office in Utrecht before Friday."),
        ("Yes, please.", "user: Yes, please. Book the room with the balcony."),
    ],
    ids=["negated", "another value", "short answer"],
)
def test_what_says_something_else_stays(carrier: str, line: str) -> None:
    assert unsaid(carrier, line) == (line, "")


def test_a_value_that_a_fact_shows_with_its_question_is_left_out_alone() -> None:
    said = Said([line := "user: HB-4471902"])
    said.add_fixed([], Layers(facts=("- 2026-11-20, user: HB-4471902 (in reply to: Which number?)",), fact_ids=("f1",)))
    assert said.unsaid(line) == ("", "fact f1")


STATEMENT, QUESTION = "I can't eat nuts or celery.", "I can't eat nuts or celery. Is the satay alright?"
REPLIES = {
    "a confirmation": (STATEMENT, "Noted, I will keep that in mind for meals.", False),
    "with a word of the question": (STATEMENT, "Then the satay of the market hall is out.", True),
    "a confirmation beside another question": (
        "I can't eat nuts or celery. What shall we cook?",
        "Noted, I will keep that in mind for meals.",
        False,
    ),
    "to a question": (QUESTION, "Better take the curry without the sauce.", True),
    "short, to a question": (QUESTION, "Better not.", False),
}


@pytest.mark.parametrize("name", REPLIES)
def test_a_reply_to_what_a_fact_says_stays_only_if_it_may_answer(name: str) -> None:
    text, reply, stays = REPLIES[name]
    at = datetime(2026, 11, 20, tzinfo=UTC)
    lines = [
        RecalledLine("a", f"user: {text}", 20, {"message": 0.5}, (at, "s", 1)),
        RecalledLine(
            "b", f"assistant: {reply}", 20, {"message": 0.2}, (at, "s", 2), asked=frozenset(analyze_query("satay"))
        ),
    ]
    said = Said([line.line for line in lines])
    said.add_fixed([], Layers(facts=(f"- 2026-11-20, user: {STATEMENT}",), fact_ids=("f1",)))
    lines[0] = lines[0]._replace(asked=lines[1].asked)
    left, merged = each_once(lines, "recalled", said, corrected=int, room=100)
    assert [line.id for line in left] == ["b"] * stays
    assert [(one.id, one.carrier) for one in merged] == [("a", "fact f1"), ("b", "fact f1")][: 2 - stays]


AT = datetime(2026, 11, 20, tzinfo=UTC)
COPY = "Well, our flight to Lisbon is TP 1234, and it leaves at 07:35!"


def line_of(name: str, text: str) -> RecalledLine:
    order = (AT, "s", int(name[-1])) if name.startswith("m") else None
    return RecalledLine(name, f"{'' if order else '- 2026-11-20, '}user: {text}", 20, order=order)


SAYING: dict[str, dict[str, Any]] = {
    "pin p1": {"pins": (Pin("p1", FLIGHT, AT),)},
    "fact f1": {"facts": (f"- 2026-11-20, user: {FLIGHT}",), "fact_ids": ("f1",)},
    "the summary": {"narrative": f"- 2026-11-20, user: {FLIGHT}"},
    "message h1": {},
    "message now": {},
    "memory y1": {"memories": (line_of("y1", FLIGHT),)},
    "fact r1": {"recalled": (line_of("r1", FLIGHT),)},
    "recalled m1": {"messages": (line_of("m1", FLIGHT),)},
}
REPEATING = {"memories": ("memory", "y2"), "recalled": ("fact", "r2"), "messages": ("recalled", "m2")}
PAIRS = [
    (layer, carrier)
    for place, layer in enumerate(REPEATING)
    for carrier, said in SAYING.items()
    if said.keys().isdisjoint([*REPEATING][place + 1 :])  # what comes later leaves out what is said before
]


@pytest.mark.parametrize("is_view", [False, True], ids=["window", "view"])
@pytest.mark.parametrize(("layer", "carrier"), PAIRS)
def test_each_part_leaves_out_what_an_earlier_one_says(layer: str, carrier: str, *, is_view: bool) -> None:
    """A near-copy counts; the receipt names the item that says the same, and nothing else is left out."""
    (kind, name), said = REPEATING[layer], SAYING[carrier]
    other = "We take two suitcases to the old harbour."
    lines = [line_of(name, COPY), line_of(f"{name[0]}9", other)]
    layers = Layers(**{**said, layer: (*said.get(layer, ()), *lines)})
    history = [Message("user", FLIGHT if "h1" in carrier else "Hi.", id="h1"), Message("assistant", "Ok.", id="h2")]
    asked = Message("user", FLIGHT if "now" in carrier else "So?", id="now")
    costs = Costs(HeuristicTokenCounter(), {})
    if is_view:
        limits = ViewLimits(keep_newest=True)
        window = build_view(
            limits, [*history, asked], costs=costs, most=4_000, error_reserve=0, layers=layers,
            unread=LeftOut(0, 0), notes=(), nearest=20,
        )  # fmt: skip
    else:
        window = build_context_window(Request(asked), history, costs=costs, layers=layers)
    text = "\n".join(message.text for message in window.messages)
    assert (text.count("TP 1234"), text.count(other)) == (1, 1)
    assert [(one.kind, one.id, one.carrier) for one in window.receipt.nearest] == [(kind, name, carrier)]


_PLACES = ("harbour", "station", "library", "museum", "market", "stadium")
_THINGS = ("boat", "bicycle", "camera", "piano", "suitcase", "umbrella")
_NAMED = st.builds(
    "The {0} that I rented near the {1} is called {2}{3}.".format,
    st.sampled_from(_THINGS),
    st.sampled_from(_PLACES),
    st.sampled_from(("Marabou", "Pelican", "Heron")),
    st.integers(1, 3),
)
_ASKED = st.builds("Where did we leave the {0} near the {1}?".format, st.sampled_from(_THINGS), st.just("station"))


def repeated(window: ContextWindow) -> list[str]:
    """Return the sentences of at least four terms that occur twice outside the verbatim history."""
    said: list[tuple[str, ...]] = []
    for section in window.sections:
        if section.name not in ("history", "user_message", "current_turn"):
            for item in section.items:
                said += [tuple(analyze(one)) for one in sentences_of(body(item.text))]
    long = [one for one in said if len(one) >= 4]
    return [" ".join(one) for one in set(long) if long.count(one) > 1]


@settings(max_examples=12, deadline=None)
@given(st.lists(st.lists(_NAMED | _ASKED, min_size=1, max_size=3), min_size=12, max_size=30), _ASKED | _NAMED)
def test_no_sentence_stands_twice(turns: list[list[str]], question: str) -> None:
    """This holds for facts, excerpts, memories and recalled messages of any conversation; the receipt still adds up."""
    chosen = ArcSettings(summary={"high_water_tokens": 0})
    with ContextEngine.open(token_counter=HeuristicTokenCounter(), settings=chosen) as engine:
        session = engine.session("s", user_id="ann")
        for place, turn in enumerate(turns):
            session.append([Message("user", " ".join(turn)), Message("assistant", f"Noted as number {place}.")])
        session.summarize()
        assert engine.flush(60)
        window = session.context(question)
    assert not repeated(window)
    assert sum(section.tokens for section in window.sections) == window.total_tokens
    assert all(sum(item.tokens or 0 for item in one.items) == one.tokens for one in window.sections if one.items)


def test_nothing_marks_what_is_left_out_at_an_end() -> None:
    """The mark “…” only stands between two sentences."""
    assert unsaid(FLIGHT, f"user: We take two suitcases each. {FLIGHT}")[0] == "user: We take two suitcases each."
    assert unsaid(FLIGHT, f"user: {FLIGHT} We take two suitcases each.")[0] == "user: We take two suitcases each."
    excerpt = f"user: We take two suitcases each. … {FLIGHT} … The hotel is near the old harbour."
    assert unsaid(FLIGHT, excerpt)[0] == "user: We take two suitcases each. … The hotel is near the old harbour."


@pytest.mark.parametrize(
    ("said", "rest"),
    [
        ("ok my sister Jule moved to Porto", ""),
        ("My sister Jule moved to Porto, so when do we leave home on Friday", ""),
        (
            "My sister Jule moved to Porto, so when do we have to leave at 9:40",
            "… so when do we have to leave at 9:40",
        ),
    ],
    ids=["a lead-in", "a question", "a question with a value"],
)
def test_a_few_further_words_do_not_make_a_sentence_new(said: str, rest: str) -> None:
    """A fact is not shown again as an excerpt with its "ok", or with what follows it; a value there is shown."""
    chosen = ArcSettings(summary={"high_water_tokens": 0})
    with ContextEngine.open(token_counter=HeuristicTokenCounter(), settings=chosen) as engine:
        session = engine.session("s", user_id="ann")
        for place in range(14):
            session.append([Message("user", "Hello there."), Message("assistant", f"Line {place} is green again.")])
        session.append([Message("user", said), Message("assistant", "Lovely.")])
        for place in range(14):
            session.append([Message("user", "Hello there."), Message("assistant", f"Line {place} is red again.")])
        session.summarize()
        assert engine.flush(60)
        window = session.context("What's the weather like?")
    shown = [item.text for section in window.sections for item in section.items]
    assert sum("moved to Porto" in text for text in shown) == 1
    assert rest in "\n".join(shown)
