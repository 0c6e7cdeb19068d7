"""Recall over texts in memory: without a store, for tests and benchmarks of the ranking."""

from collections.abc import Sequence

from arc_common.memory.facts.extraction import extract_facts
from arc_common.memory.recall.index import FoundMessages, MessagePlace, SessionIndex
from arc_common.memory.recall.ranking import MOST_READ_ANEW, Recalled, Stated, rank_found
from arc_common.messages import Message, Role


def rank(query: str, texts: Sequence[str], *, top_k: int = 5, window_terms: int = 60) -> list[tuple[int, float]]:
    """Return the place and score of the texts that match a query best, best first."""
    found = SessionIndex((("", text) for text in texts), window_terms=window_terms).ranked(query, top_k=top_k)
    return list(zip(found.places, found.scores, strict=True))


def recall(
    question: str,
    messages: Sequence[str],
    facts: Sequence[tuple[str, Sequence[int]]] = (),
    *,
    top_k: int = 5,
    window_terms: int = 60,
) -> list[Recalled]:
    """Return the messages relevant to a question, best first; a matching fact also finds the messages that state it.

    Their `seq` is their place in `messages`.
    """
    known = max((place for _, sources in facts for place in sources), default=-1)
    unread = range(max(known + 1, len(messages) - MOST_READ_ANEW), len(messages))
    read = [(fact, place) for place in unread for fact in extract_facts([Message(Role.USER, messages[place])])]
    facts = [*facts, *((fact.value, (place,)) for fact, place in read)]
    shares = SessionIndex((("", text) for text, _ in facts), window_terms=0).ranked(question).shares
    stated = [
        Stated(text, [MessagePlace("s", place) for place in places], shares.get(i, 0.0))
        for i, (text, places) in enumerate(facts)
    ]
    said = SessionIndex((("", text) for text in messages), window_terms=window_terms).ranked(question).shares
    found = FoundMessages({MessagePlace("s", place): share for place, share in said.items()}, {})
    return rank_found(found, stated=stated)[:top_k]
