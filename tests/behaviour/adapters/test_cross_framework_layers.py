"""A conversation that is long enough to be summarised changes frameworks: the same facts and summary lead it there."""

from collections.abc import Callable
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

import langchain_arc
import llamaindex_arc
from arc_common.engine.context_engine import ContextEngine
from langchain_arc import ArcChatMessageHistory
from llamaindex_arc import ArcChatMemoryBuffer
from tests.support.databases import sqlite_url
from tests.support.langchain_helpers import settle
from tests.support.llamaindex_helpers import assistant, user

LIMIT = 1_500


def by_langchain(engine: ContextEngine, first: int, last: int) -> None:
    """Turns of a LangChain app: a fresh history for each run, as its wrapper makes them."""
    for n in range(first, last):
        history = ArcChatMessageHistory("s", engine=engine, max_tokens=LIMIT)
        assert history.messages is not None
        history.add_messages(
            [HumanMessage(f"Parcel P-{4000 + n} must not be left outside."), AIMessage(f"Noted, {n}.")]
        )
    settle(engine)


def by_llamaindex(engine: ContextEngine, first: int, last: int) -> None:
    """Turns of a LlamaIndex app."""
    memory = ArcChatMemoryBuffer.from_defaults(engine=engine, session_id="s", token_limit=LIMIT)
    for n in range(first, last):
        assert memory.get() is not None
        memory.put(user(f"Parcel P-{4000 + n} must not be left outside."))
        memory.put(assistant(f"Noted, {n}."))
    settle(engine)


def shown_by_langchain(engine: ContextEngine) -> list[str]:
    view = ArcChatMessageHistory("s", engine=engine, max_tokens=LIMIT).messages
    assert [isinstance(message, SystemMessage) for message in view] == [True] + [False] * (len(view) - 1)
    return [message.text for message in view]


def shown_by_llamaindex(engine: ContextEngine) -> list[str]:
    view = ArcChatMemoryBuffer.from_defaults(engine=engine, session_id="s", token_limit=LIMIT).get()
    assert [message.role.value == "system" for message in view] == [True] + [False] * (len(view) - 1)
    return [message.content or "" for message in view]


@pytest.mark.parametrize(
    ("begin", "go_on"),
    [(by_langchain, by_llamaindex), (by_llamaindex, by_langchain)],
    ids=["LangChain first", "LlamaIndex first"],
)
def test_the_same_facts_and_summary_lead_it(
    tmp_path: Path,
    begin: Callable[[ContextEngine, int, int], None],
    go_on: Callable[[ContextEngine, int, int], None],
) -> None:
    """Across a restart, with no model; and both frameworks see one conversation from then on."""
    url = sqlite_url(tmp_path, "c.db")
    with langchain_arc.open_engine(url) as engine:
        begin(engine, 0, 24)
        before = shown_by_langchain(engine)
    with llamaindex_arc.open_engine(url) as engine:
        after = shown_by_llamaindex(engine)
        assert after == before
        assert "P-4003" in after[0]
        assert "\nSummary:\n" in after[0]
        go_on(engine, 24, 48)
        assert shown_by_langchain(engine) == shown_by_llamaindex(engine)
        assert "P-4024" in shown_by_langchain(engine)[0]
        stored = [message.text for message in engine.session("s").messages()]
    assert stored == [
        text for n in range(48) for text in (f"Parcel P-{4000 + n} must not be left outside.", f"Noted, {n}.")
    ]
