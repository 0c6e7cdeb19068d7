"""LangMem's tools and its background manager store memories in `ArcStore`."""

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage

from arc_common import ContextEngine
from langchain_arc import ArcStore, open_engine
from tests.support.databases import sqlite_url
from tests.support.langchain_agents import ScriptedToolModel, call

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # trustcall imports a deprecated name of LangGraph
    from langmem import (
        ReflectionExecutor,
        create_manage_memory_tool,
        create_memory_store_manager,
        create_search_memory_tool,
    )

NAMESPACE = ("memories", "{langgraph_user_id}")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[ContextEngine]:
    with open_engine(sqlite_url(tmp_path)) as opened:
        yield opened


def of_user(name: str) -> Any:
    return {"configurable": {"langgraph_user_id": name, "thread_id": f"{name}'s"}}


def calling(*calls: dict[str, Any]) -> AIMessage:
    return AIMessage("", tool_calls=list(calls))


def results(answer: dict[str, Any]) -> list[str]:
    return [message.text for message in answer["messages"] if isinstance(message, ToolMessage)]


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_an_agent_manages_and_searches_its_memories(engine: ContextEngine, way: str) -> None:
    """Users are separate; updates and deletions reach the store."""
    store = ArcStore(engine)
    tools = [create_manage_memory_tool(NAMESPACE), create_search_memory_tool(NAMESPACE)]

    async def run(user: str, *calls: dict[str, Any]) -> list[str]:
        model = ScriptedToolModel(script=[*map(calling, calls), "Done."])
        agent: Any = create_agent(model, tools, store=store)
        value = {"messages": [("user", "Go on.")]}
        answer = agent.invoke(value, of_user(user)) if way == "invoke" else await agent.ainvoke(value, of_user(user))
        return results(answer)

    saved, other, found = await run(
        "ann",
        call("manage_memory", "c1", content="Ann drinks green tea."),
        call("manage_memory", "c2", content="Ann cycles to work."),
        call("search_memory", "c3", query="tea", limit=1),
    )
    (memory,) = json.loads(found)
    assert memory["value"] == {"content": "Ann drinks green tea."}
    assert memory["key"] in saved
    assert await run("eve", call("search_memory", "c4", query="tea")) == ["[]"]
    await run(
        "ann",
        call("manage_memory", "c5", action="update", id=memory["key"], content="Ann drinks black tea."),
        call("manage_memory", "c6", action="delete", id=other.rpartition(" ")[2]),
    )
    (left,) = store.search(("memories", "ann"))
    assert left.value == {"content": "Ann drinks black tea."}


class ExtractingModel(ScriptedToolModel):
    """A scripted model; trustcall looks for it inside the result of `bind_tools`."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind()


def extracted(**content: str) -> dict[str, Any]:
    return call("Memory", f"m{len(content['content'])}", **content)


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_the_background_manager_inserts_changes_and_removes(engine: ContextEngine, way: str) -> None:
    """It gets similar stored memories, and writes its model's changes."""
    store = ArcStore(engine)
    spaces = ("memories", "ann")

    async def manage(said: str, *calls: dict[str, Any]) -> str:
        model = ExtractingModel(script=[calling(*calls)], checked=False)
        manager = create_memory_store_manager(model, namespace=NAMESPACE, store=store, enable_deletes=True)
        value: Any = {"messages": [{"role": "user", "content": said}]}
        if way == "invoke":
            manager.invoke(value, of_user("ann"))
        else:
            await manager.ainvoke(value, of_user("ann"))
        return "\n".join(message.text for message in model.requests[0])

    await manage("I drink tea and cycle.", extracted(content="Ann drinks tea."), extracted(content="Ann cycles."))
    keys = {item.value["content"]["content"]: item.key for item in store.search(spaces)}
    assert set(keys) == {"Ann drinks tea.", "Ann cycles."}
    ids = {text: uuid5(NAMESPACE_DNS, str((*spaces, key))).hex for text, key in keys.items()}
    patch = {"op": "replace", "path": "/content", "value": "Ann drinks coffee."}
    shown = await manage(
        "I drink coffee instead of tea now, and never cycle.",
        call("PatchDoc", "p", json_doc_id=ids["Ann drinks tea."], planned_edits="coffee", patches=[patch]),
        call("RemoveDoc", "r", json_doc_id=ids["Ann cycles."]),
    )
    assert "Ann drinks tea." in shown
    (left,) = store.search(spaces)
    assert (left.value["content"]["content"], left.key) == ("Ann drinks coffee.", keys["Ann drinks tea."])
    assert store.search(("memories", "eve")) == []


def test_memories_are_extracted_in_the_background_of_an_agent(engine: ContextEngine, tmp_path: Path) -> None:
    """An executor works on its own thread, and another process sees the result."""
    store = ArcStore(engine)
    model = ExtractingModel(script=[calling(extracted(content="Ann drinks tea."))], checked=False)
    manager = create_memory_store_manager(model, namespace=NAMESPACE, store=store)
    with ReflectionExecutor(manager, store=store) as executor:
        payload: Any = {"messages": [{"role": "user", "content": "I drink tea."}]}
        executor.submit(payload, of_user("ann")).result(30)
        assert [item["value"] for item in executor.search("tea", namespace=("memories", "ann"))] == [
            {"kind": "Memory", "content": {"content": "Ann drinks tea."}}
        ]
    with open_engine(sqlite_url(tmp_path)) as again:
        assert len(ArcStore(again).search(("memories", "ann"), query="tea")) == 1
