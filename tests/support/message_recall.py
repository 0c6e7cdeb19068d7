"""Recall over plain texts, for tests and benchmarks of the ranking."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache

from arc_common.memory.facts.extraction import extract_facts
from arc_common.memory.recall.index import FoundMessages, MessageIndex, MessagePlace
from arc_common.memory.recall.indexing import MessageIndexer
from arc_common.memory.recall.ranking import MOST_READ_ANEW, Recalled, Stated, rank_found
from arc_common.messages import Message, Role
from arc_common.protocols import CountedMessage, SessionKey
from arc_common.retrieval.bm25 import TextIndex
from arc_common.settings import ArcSettings
from tests.support.services import services

KEY = SessionKey("s")


@lru_cache(maxsize=1)
def indexed(texts: Sequence[str], window_terms: int) -> MessageIndex:
    """Return an index in memory of messages with these texts."""
    parts = services(settings=ArcSettings(recall={"window_terms": window_terms}))
    at = datetime(2026, 11, 1, tzinfo=UTC)
    messages = [Message(Role.USER, text, id=f"m{place}", created_at=at) for place, text in enumerate(texts)]
    parts.store.append(KEY, [CountedMessage(message, 1, "words") for message in messages])
    index = MessageIndex(parts)
    MessageIndexer(parts, index).catch_up(KEY)
    return index


@lru_cache(maxsize=1)
def _said(texts: Sequence[str]) -> TextIndex:
    return TextIndex(("", text) for text in texts)


def rank(query: str, texts: Sequence[str], *, top_k: int = 5) -> list[tuple[int, float]]:
    """Return the places and scores of the texts that match a query, best first, each text by itself."""
    found = TextIndex(("", text) for text in texts).ranked(query, top_k=top_k)
    return list(zip(found.places, found.scores, strict=True))


def recall(
    question: str,
    messages: Sequence[str],
    facts: Sequence[tuple[str, Sequence[int]]] = (),
    *,
    top_k: int = 5,
    window_terms: int = 60,
    reads: bool = True,
) -> list[Recalled]:
    """Return the messages relevant to a question, best first; a matching fact also finds the messages that state it.

    Their `seq` is their place in `messages`. With `reads`, facts are also extracted from the last messages.
    """
    known = max((place for _, sources in facts for place in sources), default=-1)
    unread = range(max(known + 1, len(messages) - MOST_READ_ANEW), len(messages)) if reads else ()
    read = [(fact, place) for place in unread for fact in extract_facts([Message(Role.USER, messages[place])])]
    facts = [*facts, *((fact.value, (place,)) for fact, place in read)]
    shares = _said(tuple(text for text, _ in facts)).ranked(question).shares
    stated = [
        Stated(text, [MessagePlace("s", place) for place in places], shares.get(i, 0.0))
        for i, (text, places) in enumerate(facts)
    ]
    found = indexed(tuple(messages), window_terms).search(KEY, question, limit=max(len(messages), 1))
    said = {MessagePlace("s", place.seq - 1): share for place, share in found.said.items()}
    return rank_found(FoundMessages(said, {}), stated=stated)[:top_k]
