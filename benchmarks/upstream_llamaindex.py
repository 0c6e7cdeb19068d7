"""Run LlamaIndex's own tests of memory, chat engines, agents and chat stores with arc's classes in place of its own.

    git clone --depth 1 --branch v0.14.25 https://github.com/run-llama/llama_index    # the installed version
    python -m benchmarks.upstream_llamaindex llama_index
    python -m benchmarks.upstream_llamaindex llama_index --theirs    # the same tests with LlamaIndex's own classes

`ArcChatMemoryBuffer` replaces `ChatMemoryBuffer` (also where agents create one), `ArcMemory` replaces the `Memory` that
chat engines create and the one in `Memory`'s own tests, and `ArcChatStore` replaces `SimpleChatStore`. Tests of
intended differences and of features that only `Memory` has are excluded; `EXCLUDED` gives the reasons. The checkout
must be of the installed version: with others, tests fail with LlamaIndex's own classes, too, such as
`test_workflow_execution_empty` of 0.13.5 on 0.14.25.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

CONFTEST = '''
import os
import pytest
from llama_index.core.llms import MockLLM

os.environ["IS_TESTING"] = "1"  # makes a mock LlamaIndex's default LLM


@pytest.fixture()
def patch_llm_predictor(monkeypatch):
    """Replace LlamaIndex's fixture of this name for the prompts of these tests."""
    monkeypatch.setattr(MockLLM, "predict", lambda self, prompt, **given: str(given))
'''
SHIM = """
from llama_index.core.agent.workflow import base_agent, multi_agent_workflow
from llama_index.core.chat_engine import condense_plus_context, condense_question, context, simple
from llamaindex_arc import ArcChatMemoryBuffer, ArcChatStore, ArcMemory

for module in (condense_plus_context, condense_question, context, simple):
    module.Memory = ArcMemory
for module in (base_agent, multi_agent_workflow):
    module.ChatMemoryBuffer = ArcChatMemoryBuffer
make = condense_question.CondenseQuestionChatEngine.from_defaults.__func__
make.__defaults__ = tuple(ArcMemory if getattr(one, "__name__", "") == "Memory" else one for one in make.__defaults__)
"""
MEMORY = """

def Memory(*, session_id, token_limit, token_flush_size, chat_history_token_ratio):
    room = int(token_limit * chat_history_token_ratio)  # the messages' share
    return ArcMemory.from_defaults(session_id=session_id, token_limit=room, tokenizer_fn=get_tokenizer())
"""
BUFFER = "import ChatMemoryBuffer"
BASE = "from llama_index.core.memory.memory import Memory"
FILES = {
    "memory/test_chat_memory_buffer.py": (BUFFER,),
    "memory/test_memory_base.py": (BASE,),
    "chat_engine/test_simple.py": (BUFFER,),
    "chat_engine/test_context.py": (),
    "chat_engine/test_condense_plus_context.py": (BUFFER,),
    "chat_engine/test_condense_question.py": (BUFFER,),
    "chat_engine/test_streaming_history.py": (BUFFER,),
    "agent/workflow/test_single_agent_workflow.py": (BUFFER,),
    "agent/workflow/test_multi_agent_workflow.py": (BUFFER,),
    "storage/chat_store/test_simple_chat_store.py": ("import SimpleChatStore",),
}
OURS = {
    BASE: f"from llama_index.core.utils import get_tokenizer\nfrom llamaindex_arc import ArcMemory{MEMORY}",
    BUFFER: "import ChatMemoryBuffer\nfrom llamaindex_arc import ArcChatMemoryBuffer as ChatMemoryBuffer",
    "import SimpleChatStore": "import SimpleChatStore\nfrom llamaindex_arc import ArcChatStore as SimpleChatStore",
}
_FRAMING = "limits of 5 and 10 tokens; arc also counts the framing of a request and of each message"
EXCLUDED = {
    "get_when_initial_tokens_exceed": "arc raises no error between a question and its answer",
    "get_when_initial_tokens_same": _FRAMING,
    "get_when_space_for": _FRAMING,
    "max_tokens": _FRAMING,
    "save_load": _FRAMING,
    "workflow_with_state": "expects that editing a returned message changes the stored one",
    "add_messages": "expects the oldest keys first and inserts a message; arc only appends to conversations",
    "queue_over_limit": "arc shortens older messages where `Memory` drops them",
    "first_message_must_be_user": "a user's message over the limit, for which arc raises an error that says so",
    "only_tool_message_remaining": "the same",
    "test_initialization": "reads `Memory`'s own fields",
    "estimate_token_count": "tests a private method of `Memory`",
    "test_aget_all": "tests a status of messages that only `Memory` has; the buffer's tests cover `get_all`",
    "test_areset": "tests the same status",
    "persist_non_ascii": "arc's store is a database, not a JSON file",
}


def main() -> int:
    """Copy the tests, replace the classes, and run the tests."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="a checkout of run-llama/llama_index")
    parser.add_argument("--theirs", action="store_true", help="run the tests with LlamaIndex's own classes")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        into = Path(folder)
        (into / "conftest.py").write_text(CONFTEST + ("" if given.theirs else SHIM), "utf-8")
        for path, changes in FILES.items():
            place = given.checkout / "llama-index-core/tests" / path
            if not place.exists():  # other versions have other files
                print(f"not in this checkout: {path}")
                continue
            text = place.read_text("utf-8")
            for before in () if given.theirs else changes:
                text = text.replace(before, OURS[before])
            (into / place.name).write_text(text, "utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", folder]
        command += ["--rootdir", folder]
        if not given.theirs:
            command += ["-k", " and ".join(f"not {name}" for name in EXCLUDED)]
        root = Path(__file__).parents[1]
        environment = {"PYTHONPATH": f"{folder}:{root}", "PATH": "/usr/bin:/bin"}
        return subprocess.run(command, cwd=folder, env=environment, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
