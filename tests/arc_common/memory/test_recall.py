"""Recall by words: against rank-bm25, over planted facts, and as a growing index."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rank_bm25 import BM25Plus

from arc_common.exceptions import InvalidInputError
from arc_common.memory.recall import SessionIndex, fused, rank
from arc_common.text import analyze
from tests.arc_common.memory.conversations import FACT_SETS, build_conversation, load_facts

VOCABULARY = ["harbour", "lantern", "quartz", "주문번호", "사과", "东京", "x-1", "the"]
texts = st.lists(st.lists(st.sampled_from(VOCABULARY), max_size=12).map(" ".join), max_size=12)


@settings(max_examples=200)
@given(texts, st.sampled_from(["harbour", "quartz lantern", "주문번호", "x-1 harbour", "东京 사과"]))
def test_scores_are_those_of_rank_bm25(corpus, query):
    """Each text by itself scores what rank-bm25's BM25Plus says, less its constant."""
    ranked = dict(rank(query, corpus, top_k=50, window_terms=0))
    if not any(map(analyze, corpus)):
        assert ranked == {}
        return
    expected = BM25Plus([analyze(text) for text in corpus], delta=0).get_scores(list(dict.fromkeys(analyze(query))))
    assert ranked == pytest.approx({i: score for i, score in enumerate(expected) if score > 0})


@settings(max_examples=100)
@given(texts, texts, st.sampled_from(["harbour", "the quartz", "사과 lantern"]), st.sampled_from([0, 5, 60]))
def test_an_index_that_grew_answers_like_one_built_at_once(first, second, query, window):
    """Whatever the pieces: windows at the seam are opened again."""
    items = [(str(i), text) for i, text in enumerate(first + second)]
    grown = SessionIndex(items[: len(first)], window_terms=window)
    grown.extend(items[len(first) :])
    assert len(grown) == len(items)
    assert grown.search(query, top_k=50) == SessionIndex(items, window_terms=window).search(query, top_k=50)


@settings(max_examples=100)
@given(texts, st.integers(1, 5))
def test_results_are_ordered_and_bounded(corpus, top_k):
    """Best first, equal scores by recency, positive, none twice, at most `top_k`."""
    ranked = rank("harbour the 사과", corpus, top_k=top_k)
    assert len(ranked) <= top_k
    assert len({place for place, _ in ranked}) == len(ranked)
    assert ranked == sorted(ranked, key=lambda found: (-found[1], -found[0]))
    assert all(score > 0 for _, score in ranked)


def test_a_term_that_every_text_has_still_counts():
    """Okapi's idf is negative there: a matching text would rank below one that doesn't match."""
    assert [place for place, _ in rank("harbour", ["harbour", "harbour", "harbour"])] == [2, 1, 0]


def test_what_matches_nothing_is_not_returned():
    """Nor is what has only stop words in common."""
    assert rank("harbour", []) == []
    assert rank("harbour", ["", "…"]) == []
    assert rank("where is the harbour", ["the lantern is there"]) == []
    assert rank("", ["the lantern is there"]) == []


def test_an_answer_comes_back_with_its_question():
    """The answer shares no word with what is asked, but stands behind a message that does."""
    chat = ["Shall we talk about the weather?", "Yes.", "Which hotel did you book in Lisbon?", "The Miramar.", "Fine."]
    chat += ["Something else entirely, about gardens and roses."] * 4
    assert 3 in [place for place, _ in rank("What was the hotel in Lisbon?", chat, top_k=4)]
    assert 3 not in [place for place, _ in rank("What was the hotel in Lisbon?", chat, window_terms=0)]


def test_a_long_neighbour_does_not_bury_a_short_text():
    """Only what fits the window counts: a long reply beside a matching text is not returned in its place."""
    chat = ["My boat is called Ondine.", "Lovely! " + "Sailing is a wonderful thing to do in summer. " * 40]
    assert rank("What is the boat called?", chat)[0][0] == 0


def test_every_text_may_share_an_id():
    """The index returns ids as they were given."""
    index = SessionIndex([("m1", "the harbour"), ("m1", "a lantern in the harbour"), ("m2", "quartz")], window_terms=0)
    assert [item_id for item_id, _ in index.search("harbour")] == ["m1", "m1"]


def test_who_spoke_is_no_search_term():
    """Questions about a conversation say "the user"; a message that has the word is not meant by it."""
    chat = ["Every user of the harbour pays.", "I like the lantern.", "사용자 설명서", "등대가 좋아요"]
    assert rank("What does the user say about the lantern?", chat, top_k=1, window_terms=0)[0][0] == 1
    assert rank("사용자의 등대", chat, top_k=1, window_terms=0)[0][0] == 3
    assert rank("user", chat, top_k=1, window_terms=0)[0][0] == 0


def test_rankings_are_fused_by_normalised_scores():
    """The scale of a ranking does not matter, agreement does, and of an id given twice the best counts."""
    messages, facts = [("a", 10.0), ("b", 9.0), ("c", 1.0)], [("b", 0.2), ("d", 0.2), ("b", 0.1)]
    ranked = fused(messages, facts)
    assert [item_id for item_id, _ in ranked] == ["b", "a", "d", "c"]
    assert [score for _, score in ranked] == pytest.approx([1.9, 1.0, 1.0, 0.1])
    assert fused(messages, [], top_k=1) == [("a", 1.0)]
    assert fused() == []


@pytest.mark.parametrize("top_k", [0, -1])
def test_a_useless_top_k_is_refused(top_k):
    """By the field's name."""
    with pytest.raises(InvalidInputError, match="top_k"):
        rank("harbour", ["harbour"], top_k=top_k)


def test_a_negative_window_is_refused():
    """By the field's name."""
    with pytest.raises(InvalidInputError, match="window_terms"):
        SessionIndex(window_terms=-1)


@pytest.mark.parametrize("name", FACT_SETS)
@pytest.mark.parametrize("seed", range(3))
def test_planted_facts_come_back_with_their_questions(name, seed):
    """At least 56 of 60 among the first five of 120 messages, by the messages' words alone."""
    conversation = build_conversation(load_facts(name), seed=seed)
    index = SessionIndex((message.id, message.text) for message in conversation)
    text_of = {message.id: message.text for message in conversation}
    missed = [
        fact.question
        for fact in load_facts(name)
        if not any(fact.value in text_of[item_id] for item_id, _ in index.search(fact.question, top_k=5))
    ]
    assert len(missed) <= 4, missed
