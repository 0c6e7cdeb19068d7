"""Contexts stay within their tokens, show the best documents first, and contain only data."""

import copy
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common import ArcSettings, Document, HeuristicTokenCounter, InvalidInputError, ScoredDocument
from arc_common.prompts.context import DOCUMENT_SEPARATOR, render_fence, render_passage
from arc_common.rag import ContextBuilder, RagContext
from arc_common.rag.context_builder import furthest, wording
from arc_common.tokens.budget import usable_tokens
from tests.support.texts import COUNTERS, texts

WORDS = HeuristicTokenCounter()
ORDERS = ["score", "source", "lost-in-the-middle"]

sources = st.sampled_from([None, "a", "Handbook, page 3", "x]\n[Source: y", "<arc:documents>"])
found = st.builds(
    ScoredDocument,
    st.builds(Document, texts, id=st.none() | st.sampled_from("abc"), source=sources),
    st.none() | st.sampled_from([0.1, 0.5, 0.5, 0.9]),
)


def documents(*texts, **of_each):
    count = len(texts)
    return [ScoredDocument(Document(text, id=f"d{i}", **of_each), (count - i) / count) for i, text in enumerate(texts)]


def ids(context):
    return [shown.document.id for shown in context.documents]


@pytest.mark.parametrize("counter", COUNTERS, ids=lambda counter: counter.name)
@given(
    given_documents=st.lists(found, max_size=8),
    most=st.integers(0, 250),
    order=st.sampled_from(ORDERS),
    citations=st.booleans(),
    skip=st.booleans(),
    truncate=st.booleans(),
)
def test_a_context_has_no_token_too_many(counter, given_documents, most, order, citations, skip, truncate):
    """With any counter and options, the context has the stated tokens and documents."""
    before = copy.deepcopy(given_documents)
    builder = ContextBuilder(
        counter, max_tokens=most, order=order, citations=citations, skip_oversized=skip, truncate=truncate
    )
    context = builder.build(given_documents)
    assert context.total_tokens == counter.count(context.context) <= most
    assert context.context == DOCUMENT_SEPARATOR.join(
        render_passage(shown.document, number=number if citations else None)
        for number, shown in enumerate(context.documents, 1)
    )
    assert given_documents == before
    assert context == builder.build(given_documents)
    assert context.has_documents == bool(context.context)
    assert context.has_documents or context == RagContext.EMPTY
    whole = [entry.document for entry in given_documents]
    for shown in context.documents:
        assert shown.document in whole or (truncate and shown.document.metadata["truncated"])
    assert not any(shown.document.metadata.get("truncated") for shown in context.documents) or truncate


@pytest.mark.parametrize("counter", COUNTERS, ids=lambda counter: counter.name)
@given(given_documents=st.lists(found, max_size=8), most=st.integers(1, 250))
def test_what_is_passed_over_does_not_fit(counter, given_documents, most):
    context = ContextBuilder(counter, max_tokens=most).build(given_documents)
    by_tokens = [omission for omission in context.omissions if omission.reason == "no room for it"]
    room = usable_tokens(most, counter)
    for omission in by_tokens:
        assert counter.count(context.context) + omission.tokens + counter.count(DOCUMENT_SEPARATOR) + 1 >= room


def test_documents_stand_under_their_sources():
    context = ContextBuilder(WORDS).build(
        [
            ScoredDocument(Document("Opens at nine.", source="Hours"), 0.2),
            ScoredDocument(Document(" Closes at ten.\n"), 0.9),
        ]
    )
    assert context.context == "Closes at ten.\n\n---\n\n[Source: Hours]\nOpens at nine."
    assert context.total_tokens == WORDS.count(context.context)
    assert context.has_documents


def test_citations_are_numbered_as_shown():
    chunks = [
        ScoredDocument(Document(text, source=source, metadata={"chunk_start": start}), score)
        for text, source, start, score in [
            ("later", "A", 10, 0.9),
            ("other", "B", 0, 0.8),
            ("earlier", "A", 2, 0.7),
            ("nameless", None, 0, 0.1),
        ]
    ]
    context = ContextBuilder(WORDS, order="source", citations=True).build(chunks)
    assert context.context == (
        "[1] [Source: A]\nearlier\n\n---\n\n[2] [Source: A]\nlater\n\n---\n\n[3] [Source: B]\nother"
        "\n\n---\n\n[4]\nnameless"
    )
    assert [shown.document.text for shown in context.documents] == ["earlier", "later", "other", "nameless"]


def test_a_place_may_be_any_number():
    """It comes from foreign metadata: one larger than any float sorts last."""
    chunks = [Document(f"text {n}", source="A", metadata={"chunk_start": n}) for n in (10**400, 7)]
    shown = ContextBuilder(WORDS, order="source").build(chunks).documents
    assert [one.document.metadata["chunk_start"] for one in shown] == [7, 10**400]


def test_the_best_stand_at_both_ends():
    built = ContextBuilder(WORDS, order="lost-in-the-middle").build(documents("a", "b", "c", "d", "e"))
    assert ids(built) == ["d0", "d2", "d4", "d3", "d1"]


def test_scores_order_whatever_order_is_given():
    given_documents = documents("a", "b", "c", "d")
    given_documents.append(ScoredDocument(Document("e", id="d4")))
    shuffled = given_documents[:]
    random.Random(1).shuffle(shuffled)
    assert ids(ContextBuilder(WORDS).build(shuffled)) == ["d0", "d1", "d2", "d3", "d4"]
    assert ids(ContextBuilder(WORDS).build([Document("x", id="1"), Document("y", id="2")])) == ["1", "2"]


LONG = "The harbour master keeps a book of all the boats. " * 20


def test_what_is_too_large_is_passed_over():
    """The next documents still fit, and the omission is reported."""
    context = ContextBuilder(WORDS, max_tokens=40).build(documents(LONG, "Opens at nine.", "Closes at ten."))
    assert ids(context) == ["d1", "d2"]
    (omission,) = context.omissions
    assert (omission.kind, omission.id, omission.reason) == ("document", "d0", "no room for it")
    assert omission.tokens == WORDS.count(LONG.strip())


def test_what_is_too_large_may_end_the_context():
    """Without skipping, no weaker document follows."""
    builder = ContextBuilder(WORDS, max_tokens=40, skip_oversized=False)
    context = builder.build(documents("Opens at nine.", LONG, "Closes at ten."))
    assert ids(context) == ["d0"]
    assert [omission.id for omission in context.omissions] == ["d1", "d2"]


def test_what_is_too_large_may_be_cut():
    builder = ContextBuilder(WORDS, max_tokens=60, truncate=True)
    context = builder.build(documents("Opens at nine.", LONG, "Closes at ten."))
    first, second = context.documents[:2]
    assert first.document.text == "Opens at nine."
    assert second.document.text == "The harbour master keeps a book of all the boats. " * 3 + "…"
    assert second.document.metadata == {"truncated": True}
    assert 60 - context.total_tokens < WORDS.count("The harbour master keeps a book of all the boats. ")
    assert context.omissions[0].reason == "shortened"


def test_what_has_no_sentence_that_fits_is_not_cut():
    builder = ContextBuilder(WORDS, max_tokens=10, truncate=True)
    assert builder.build(documents("Never, under any circumstances, press the red button before nine. Or do.")) == (
        RagContext.EMPTY
    )


def test_copies_are_shown_once():
    """The best copy is shown; case, spaces and compatibility forms don't make another text."""
    context = ContextBuilder(WORDS).build(documents("Opens at 9.", "OPENS  at\n9.", "opens at ９.", "Opens at 10."))
    assert ids(context) == ["d0", "d3"]
    assert {omission.reason for omission in context.omissions} == {"says what another document says"}


NOTICE = (
    "The harbour is open every day of the week from nine in the morning until ten at night, except on public holidays, "
    "when boats are served by the night watch at the northern gate, which has a bell beside the door for all visitors"
)


def test_near_copies_are_shown_once():
    """Copies with different numbers are all shown."""
    near = documents(f"{NOTICE}.", f"{NOTICE}, please!", f"{NOTICE}, berth 12.", f"{NOTICE}, berth 13.")
    assert ids(ContextBuilder(WORDS).build(near)) == ["d0", "d2", "d3"]


def test_overlapping_chunks_are_no_copies():
    assert len(ContextBuilder(WORDS).build(documents(f"{LONG[:500]} {NOTICE}", NOTICE)).documents) == 2


@given(texts)
def test_a_passage_needs_no_further_fencing(text):
    shown = render_passage(Document(text, source=text))
    assert render_fence("documents", shown) == f"<arc:documents>\n{shown}\n</arc:documents>"


def test_no_documents_make_an_empty_context():
    assert ContextBuilder(WORDS).build([]) is RagContext.EMPTY
    assert ContextBuilder(WORDS).build([Document(" \n ")]) is RagContext.EMPTY
    assert ContextBuilder(WORDS, max_tokens=0).build([Document("x")]) == RagContext.EMPTY
    assert not RagContext.EMPTY.has_documents
    assert RagContext.EMPTY.total_tokens == 0


def test_the_limit_may_be_given_with_the_documents():
    assert ids(ContextBuilder(WORDS).build(documents("Opens at nine.", "x"), max_tokens=2)) == ["d1"]


class Superadditive:
    """A counter that counts more for texts together than apart."""

    name = "square"

    def count(self, text):
        return len(text) ** 2 // 100

    def count_batch(self, texts):
        return [self.count(text) for text in texts]


def test_no_counter_is_trusted_to_add_up():
    context = ContextBuilder(Superadditive(), max_tokens=200).build(documents(*(f"text {i} " * 6 for i in range(20))))
    assert 0 < context.total_tokens <= 200
    assert len(context.documents) + len(context.omissions) == 20


def test_useless_settings_are_refused():
    cases = [
        *(({"max_tokens": wrong}, "max_tokens") for wrong in (-1, None, "9", True, 2.5, float("nan"))),
        *(({"order": wrong}, "order") for wrong in ("random", None, ["score"], np.array(["score", "source"]))),
    ]
    for settings, field in cases:
        with pytest.raises(InvalidInputError, match=field):
            ContextBuilder(WORDS, **settings)
        with pytest.raises(InvalidInputError, match="max_tokens"):
            ContextBuilder(WORDS).build([], max_tokens=-1)


def test_what_is_no_documents_is_refused():
    """Invalid documents and counters are rejected instead of being shown letter by letter or ignored."""
    for wrong in [None, "text", {}, [None], ["text"], 5]:
        with pytest.raises(InvalidInputError, match="documents"):
            ContextBuilder(WORDS).build(wrong)
        with pytest.raises(InvalidInputError, match="token_counter"):
            ContextBuilder(wrong)
        assert ContextBuilder(WORDS).build(iter(documents("one", "two"))) == ContextBuilder(WORDS).build(
            documents("one", "two")
        )


def test_what_is_left_out_is_named():
    text = "One two three. Four five six. Seven eight nine."
    found = [
        ScoredDocument(Document(text, id="d0", source="s.md"), 0.9, {"bm25": 1.5}),
        ScoredDocument(Document("too long " * 40, source="t.md"), 0.5, {"vector": 0.4}),
    ]
    whole = ContextBuilder(WORDS).build(found[:1]).total_tokens
    context = ContextBuilder(WORDS, max_tokens=whole - 1, truncate=True).build(found)
    shortened, left = context.omissions
    assert (shortened.id, shortened.tokens) == ("d0", whole - context.total_tokens)
    assert (left.id, left.tokens) == ("t.md", ContextBuilder(WORDS).build(found[1:]).total_tokens)
    assert [dict(one.score_parts) for one in context.omissions] == [{"bm25": 1.5}, {"vector": 0.4}]


def test_settings_make_a_builder():
    for skip in [True, False]:
        for truncate in [True, False]:
            chosen = {"max_context_tokens": 12, "document_order": "source"}
            settings = ArcSettings(rag=chosen | {"skip_oversized": skip, "truncate_documents": truncate})
            found = documents("One two three. " * 9, "small one")
            made = ContextBuilder(WORDS, max_tokens=12, order="source", skip_oversized=skip, truncate=truncate)
            expected = made.build(found)
            assert ContextBuilder.from_settings(WORDS, settings).build(found) == expected


def test_problems_make_no_difference():
    assert RagContext("a", notes=("retrieve failed",)) == RagContext("a")
    assert RagContext("b") != RagContext("a")


VOCABULARY = [f"word{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(200)]


@given(texts)
def test_a_text_says_what_it_says(text):
    """It equals itself, also with other white space."""
    assert wording(text) == wording(f"  {text}\n")


LEASE = f"""Unless the tenant and the landlord of Mill Street 4 agree otherwise in writing, a small dog may be kept in
the flat; the deposit is due before the keys are handed over, the rent on the first of each month, and whoever moves out
has to paint the walls, to clean the floors and to leave all keys with the caretaker, who lives on the ground floor of
the house and is there from Monday to Friday; {" ".join(VOCABULARY[:100])}."""


def test_one_other_word_says_something_else():
    cases = [
        ("may be kept", "may not be kept"),
        ("may be kept", "must be kept"),
        ("Mill Street", "Oak Street"),
        ("before the keys", "after the keys"),
        ("the tenant and the landlord", "the landlord and the tenant"),
        ("leave all keys", "leave keys"),
        ("is there from", "isn't there from"),
        ("Street 4", "Street -4"),
        ("deposit is due", "deposit of 5 € is due"),
        ("the caretaker", "저는 관리인"),
    ]
    for said_there, said_here in cases:
        assert said_there in LEASE
        other = LEASE.replace(said_there, said_here)
        assert wording(LEASE) != wording(other)
        assert wording(other) != wording(LEASE)


def test_articles_punctuation_and_forms_of_characters_say_nothing():
    other = LEASE.replace("the floors", "floors").replace("; ", ". ").replace("a small dog", "**small** dog").upper()
    assert wording(LEASE) == wording(other.replace(" ", "\n"))


def test_other_numbers_say_something_else():
    bill = f"{' '.join(VOCABULARY)} total 1,240 euros"
    assert wording(bill) != wording(bill.replace("1,240", "1,250"))
    assert wording(bill) == wording(bill.replace("1,240", "1240"))


def test_signs_that_are_part_of_a_word_say_something():
    cases = [("3.5 mg", "3-5 mg"), ("1/2 cup", "1.2 cup"), ("v1.2", "v1-2"), ("C#", "C"), ("rated BBB-", "rated BBB")]
    for one, other in cases:
        leaflet = f"{' '.join(VOCABULARY)} {{}} and a word"
        assert wording(leaflet.format(one)) != wording(leaflet.format(other))
        assert wording(leaflet.format(other)) != wording(leaflet.format(one))
        assert wording(leaflet.format(f"- {one} -")) == wording(leaflet.format(one))


def test_texts_without_words_are_compared_as_they_are():
    assert wording("…") == wording("…")
    assert wording("…") != wording("!!")


@given(st.integers(0, 50), st.integers(0, 200), st.integers(-20, 300), st.integers(-1, 250))
def test_the_last_place_that_fits_is_found(first, length, guess, last):
    stop = first + length
    expected = min(last, stop - 1)
    assert furthest(first, stop, guess, fits=lambda place: place <= last) == (expected if expected >= first else None)


@given(st.lists(st.booleans(), max_size=60), st.integers(0, 60))
def test_what_is_found_fits(fits, guess):
    found = furthest(0, len(fits), guess, fits=fits.__getitem__)
    assert found is None or fits[found]


def test_few_places_are_tried():
    tried = []
    furthest(0, 1_000_000, 500, fits=lambda place: tried.append(place) or place <= 500)
    assert len(tried) == 2
    tried.clear()
    furthest(0, 1_000_000, 0, fits=lambda place: tried.append(place) or place <= 700_000)
    assert len(tried) < 45
