"""Run LangChain's own tests of agents, agent middleware and chat histories with arc's classes in place of its own.

    # the installed versions
    pip download --no-deps --no-binary :all: -d sources langchain==1.5.2 langchain-core==1.8.3
    pip install syrupy pytest-asyncio pytest-mock blockbuster
    python -m benchmarks.upstream_langchain sources

- Agents and middleware: each `create_agent` of the tests gets `ArcMemoryMiddleware` as its first middleware, and each
  run without a thread id gets a new one, so that arc stores the conversation and builds each request.
- Chat histories and `RunnableWithMessageHistory`: `ArcChatMessageHistory` replaces `InMemoryChatMessageHistory`.

Tests that don't test behaviour of arc's classes are excluded; `EXCLUDED` gives the reasons.
"""

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

AGENTS = '''
"""Adds arc's middleware to every agent, and detects blocking calls like LangChain's own conftest."""
import asyncio
from uuid import uuid4
import langchain.agents
import pytest
from blockbuster import blockbuster_ctx
from langchain.agents import factory
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config
from langchain_arc import ArcMemoryMiddleware, open_engine

original = factory.create_agent
engine = open_engine("sqlite://")


def create_agent(model, tools=None, *, middleware=(), **options):
    memory = ArcMemoryMiddleware(engine, caller_id=uuid4().hex)
    agent = original(model, tools, middleware=[memory, *middleware], **options)
    stream, astream = agent.stream, agent.astream

    def in_a_thread(config):
        try:
            return config if get_config() else config  # an agent inside a tool keeps its parent's
        except RuntimeError:
            known = (config or {}).get("configurable", {})
            return {**(config or {}), "configurable": {"thread_id": uuid4().hex, **known}}

    def run(value, config=None, **more):
        whole = stream(value, in_a_thread(config), **more)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return whole
        blocking.deactivate()  # the test's own call blocks, not the agent's
        try:
            return iter(list(whole))
        finally:
            blocking.activate()

    agent.stream = run
    agent.astream = lambda value, config=None, **more: astream(value, in_a_thread(config), **more)
    return agent


langchain.agents.create_agent = factory.create_agent = create_agent


@pytest.fixture(autouse=True)
def blockbuster():
    global blocking
    with blockbuster_ctx() as blocking:
        yield


@pytest.fixture
def sync_checkpointer():
    return InMemorySaver()
'''
HISTORIES = '''
"""Replaces the in-memory history with arc's."""
from uuid import uuid4
from langchain_core import chat_history
from langchain_arc import ArcChatMessageHistory, open_engine


class InMemoryChatMessageHistory(ArcChatMessageHistory):
    """deprecated: https://docs.langchain.com/oss/python/langchain/short-term-memory says LangChain of its own."""

    def __init__(self, messages=()):
        super().__init__(uuid4().hex, engine=open_engine("sqlite://"))
        if messages:
            self.add_messages(messages)

    def __eq__(self, other):
        return plain(self.messages) == plain(other.messages)


def plain(messages):
    return [message.model_copy(update={"id": None}) for message in messages]  # arc assigns each message an id


chat_history.InMemoryChatMessageHistory = InMemoryChatMessageHistory
'''
PARTS = {
    "langchain": ("tests/unit_tests/agents", AGENTS),
    "langchain_core": ("tests/unit_tests/chat_history tests/unit_tests/runnables/test_history.py", HISTORIES),
}
_MUTATES = "edits request.messages in place and expects that the state changes"
_DRAWING = "draws the graph, which has one more node with arc"
_RECORDED = "needs a provider's recorded answers and API key"
_FRAMEWORK = "agents/middleware/core/test_framework.py::"
_RETURN_DIRECT = "agents/test_return_direct_graph.py::"
EXCLUDED = {
    "langchain": {
        f"{_FRAMEWORK}test_on_model_call": _MUTATES,
        f"{_FRAMEWORK}test_create_agent_async_invoke": _MUTATES,
        "agents/middleware/implementations/test_structured_output_retry.py::"
        "test_structured_output_retry_preserves_messages": _MUTATES,
        "agents/test_invalid_tool_calls.py::"
        "test_create_agent_does_not_duplicate_historical_tool_messages": "compares messages by `is`; arc passes copies",
        f"{_FRAMEWORK}test_create_agent_jump": _DRAWING,
        f"{_FRAMEWORK}test_simple_agent_graph": _DRAWING,
        f"{_FRAMEWORK}test_agent_graph_with_jump_to_end_as_after_agent": _DRAWING,
        f"{_RETURN_DIRECT}test_agent_graph_without_return_direct_tools": _DRAWING,
        f"{_RETURN_DIRECT}test_agent_graph_with_return_direct_tool": _DRAWING,
        f"{_RETURN_DIRECT}test_agent_graph_with_mixed_tools": _DRAWING,
        "agents/middleware/core/test_decorators.py::"
        "test_async_middleware_with_can_jump_to_graph_snapshot": _DRAWING,
        "agents/middleware/core/test_diagram.py": _DRAWING,
        "agents/test_response_format_integration.py": _RECORDED,
        "agents/middleware/core/test_overrides.py::"
        "test_model_request_initialization_preserves_concurrent_warnings": "fails on Python 3.11 without arc, too",
        "agents/middleware/implementations/test_tool_emulator.py::TestLLMToolEmulatorModelConfiguration::"
        "test_default_model_deprecated_and_missing_langchain_anthropic_raises_clear_error":
            "requires that langchain-anthropic is not installed",
    },
    "langchain_core": {
        "chat_history/test_chat_history.py::"
        "test_in_memory_history_initialization": "compares messages with their ids; arc assigns an id to each",
    },
}  # fmt: skip


def main() -> int:
    """Run the tests of both distributions and return the higher exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=Path, help="folder with both source distributions")
    parser.add_argument("pytest", nargs="*", help="options for pytest, after --")
    given = parser.parse_args()
    return max(run(given.sources, part, given.pytest) for part in PARTS)


def run(sources: Path, part: str, options: list[str]) -> int:
    """Unpack one distribution, add the conftest, run its tests, and return pytest's exit code."""
    (archive,) = sources.glob(f"{part}-[0-9]*.tar.gz")
    paths, conftest = PARTS[part]
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        root = Path(folder) / archive.name.removesuffix(".tar.gz")
        for other in root.rglob("conftest.py"):
            other.unlink()
        (root / "tests/unit_tests/conftest.py").write_text(conftest, "utf-8")
        excluded = [word for name in EXCLUDED[part] for word in ("--deselect", f"tests/unit_tests/{name}")]
        print(f"{archive.name}: {len(EXCLUDED[part])} tests excluded", flush=True)
        for name, reason in EXCLUDED[part].items():
            print(f"  {name}: {reason}", flush=True)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += ["-o", "asyncio_mode=auto", "-o", "addopts="]
        command += ["--rootdir", str(root), *paths.split(), *excluded, *options]
        paths_of_modules = (root, Path(__file__).parents[1], os.environ.get("PYTHONPATH", ""))
        environment = {"PYTHONPATH": ":".join(map(str, paths_of_modules)), "PATH": "/usr/bin:/bin"}
        return subprocess.run(command, cwd=root, env=environment, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
