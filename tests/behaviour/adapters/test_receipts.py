"""A session has the receipt of its last request, whichever adapter built it."""

from pathlib import Path

from langchain.agents import create_agent
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage
from llama_index.core.llms import ChatMessage

from arc_common import ContextEngine, Receipt
from langchain_arc import ArcChatMessageHistory, ArcMemoryMiddleware, with_arc_memory
from llamaindex_arc import ArcMemory
from tests.support.databases import sqlite_url
from tests.support.langchain_agents import ScriptedToolModel


def test_each_adapter_leaves_the_receipt_of_its_last_request(tmp_path: Path) -> None:
    with ContextEngine.open(sqlite_url(tmp_path)) as engine:
        session = engine.session("s")
        seen: list[Receipt | None] = [session.receipt()]
        assert seen == [None]

        with_arc_memory(FakeListChatModel(responses=["One."]), engine).invoke(
            "First?", {"configurable": {"session_id": "s"}}
        )
        seen.append(session.receipt())
        assert ArcChatMessageHistory("s", engine=engine).messages
        seen.append(session.receipt())
        agent = create_agent(
            ScriptedToolModel(script=[AIMessage("Two.")]), [], middleware=[ArcMemoryMiddleware(engine)]
        )
        agent.invoke({"messages": [("human", "Second?")]}, {"configurable": {"thread_id": "s"}})
        seen.append(session.receipt())
        memory = ArcMemory.from_defaults(engine=engine, session_id="s")
        memory.put(ChatMessage("Third?", role="user"))
        memory.get()
        seen.append(memory.session.receipt())
        kept = [receipt.kept for receipt in seen if receipt]
        assert len(set(kept)) == len(kept) == 4
        assert seen[-1] == session.receipt()
