"""LlamaIndex's memory on branches: forks, rewinds, replaced histories, and workflows."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.workflow import Context

from arc_common import BranchNotFoundError, ContextEngine, InvalidInputError, SessionNotFoundError
from llamaindex_arc import ArcChatMemoryBuffer, ArcMemory, open_engine
from tests.support.llamaindex_agents import WARNINGS, Script, agent_of
from tests.support.llamaindex_helpers import assistant, break_writes, mend_writes, said, user

pytestmark = WARNINGS


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[ContextEngine]:
    with open_engine(f"sqlite:///{tmp_path / 'chat.db'}") as opened:
        yield opened


@pytest.fixture
def memory(engine: ContextEngine) -> ArcMemory:
    memory = ArcMemory.from_defaults(engine=engine, session_id="s", user_id="ann")
    memory.put_messages(
        [user("Plan a trip to Rome"), assistant("In May?"), user("No, in June"), assistant("June it is")]
    )
    return memory


ROME = ["Plan a trip to Rome", "In May?"]
JUNE = [*ROME, "No, in June", "June it is"]


def place(memory: ArcMemory, text: str) -> str:
    """Return the id of the message with this text."""
    return next(message.id or "" for message in memory.session.messages() if message.text == text)


@pytest.mark.parametrize("asynchronous", [False, True], ids=["fork", "afork"])
async def test_a_fork_goes_its_own_way(engine: ContextEngine, memory: ArcMemory, asynchronous: bool) -> None:
    """Both chat engines see the messages up to the fork and their own, also after reopening the branch."""
    at = place(memory, "In May?")
    idea = await memory.afork(at, name="idea") if asynchronous else memory.fork(at, name="idea")
    script = Script("Then May.", "By train.")
    SimpleChatEngine.from_defaults(llm=script.llm, memory=idea).chat("Yes, in May")
    SimpleChatEngine.from_defaults(llm=script.llm, memory=memory).chat("How?")
    assert [said(request) for request in script.seen] == [[*ROME, "Yes, in May"], [*JUNE, "How?"]]
    again = ArcChatMemoryBuffer.from_defaults(engine=engine, session_id="s", user_id="ann", branch="idea")
    for one in (idea, again):
        assert said(one.get_all()) == said(one.get()) == [*ROME, "Yes, in May", "Then May."]
        assert type(one.fork()) is type(one)
    assert said(memory.get_all()) == [*JUNE, "How?", "By train."]


def test_a_fork_without_a_place_shares_everything(memory: ArcMemory) -> None:
    idea = memory.fork()
    idea.put(user("And Naples?"))
    assert said(idea.get_all()) == [*JUNE, "And Naples?"]
    assert said(memory.get_all()) == JUNE
    assert idea.token_limit == memory.token_limit


def test_a_memory_moves_with_its_session(memory: ArcMemory) -> None:
    """A rewind of a branch moves its memory; a memory without a branch follows the current one."""
    idea = memory.fork()
    idea.session.rewind(to=place(memory, "In May?"))
    idea.put(user("Yes, in May"))
    assert said(idea.get_all()) == [*ROME, "Yes, in May"]
    assert ArcMemory.from_dict(idea.to_dict()).session.branch == idea.session.branch


@pytest.mark.parametrize("of_the_fork", [True, False])
def test_a_history_that_replaces_another_leaves_the_other_branches_alone(memory: ArcMemory, of_the_fork: bool) -> None:
    """Agents replace the history by `run(chat_history=…)`."""
    idea = memory.fork()
    changed, other = (idea, memory) if of_the_fork else (memory, idea)
    changed.set([*changed.get_all()[:2], user("Yes, in May")])
    assert said(changed.get_all()) == [*ROME, "Yes, in May"]
    assert said(other.get_all()) == JUNE


def test_a_history_of_one_branch_is_replaced_in_place(memory: ArcMemory) -> None:
    memory.set([*memory.get_all()[:2], user("Yes, in May")])
    assert len(memory.session.branches()) == 1
    assert said(memory.get_all()) == [*ROME, "Yes, in May"]


def test_what_could_not_be_stored_stays_with_its_memory(memory: ArcMemory, tmp_path: Path) -> None:
    break_writes(tmp_path / "chat.db")
    memory.put(user("By train?"))
    mend_writes(tmp_path / "chat.db")
    idea = memory.fork()
    assert said(idea.get_all()) == JUNE
    memory.put(assistant("Yes."))
    assert said(memory.get_all()) == [*JUNE, "By train?", "Yes."]


async def test_a_workflows_context_carries_the_branch(engine: ContextEngine, memory: ArcMemory) -> None:
    """Restored from JSON, the workflow continues on the branch, whatever happened on others."""
    idea = memory.fork(place(memory, "In May?"))
    script = Script("Then May.", "Two weeks.")
    agent = agent_of(script)
    context = Context(agent)
    await agent.run("Yes, in May", ctx=context, memory=idea)
    memory.put(user("By train"))
    restored = Context.from_dict(agent, json.loads(json.dumps(context.to_dict())))
    await agent.run("How long?", ctx=restored)
    assert said(script.seen[-1])[1:] == [*ROME, "Yes, in May", "Then May.", "How long?"]
    assert said(idea.get_all()) == [*ROME, "Yes, in May", "Then May.", "How long?", "Two weeks."]
    assert said(memory.get_all()) == [*JUNE, "By train"]


async def test_a_saved_context_follows_its_branch_by_name(engine: ContextEngine, memory: ArcMemory) -> None:
    """A rewind passes the name on, so an earlier saved run continues with the named branch."""
    idea = memory.fork(place(memory, "In May?"), name="idea")
    script = Script("Then May.", "Then Naples.")
    agent = agent_of(script)
    context: Context = Context(agent)
    await agent.run("Yes, in May", memory=idea, ctx=context)
    saved = json.loads(json.dumps(context.to_dict()))
    idea.session.rewind(to=place(memory, "Plan a trip to Rome"))
    await agent.run("Rather Naples", ctx=Context.from_dict(agent, saved))
    assert said(idea.get_all()) == ["Plan a trip to Rome", "Rather Naples", "Then Naples."]
    assert said(memory.get_all()) == JUNE


def test_a_restored_memory_needs_its_branch(engine: ContextEngine, memory: ArcMemory) -> None:
    """In another database it starts the conversation; if its branch is deleted, nothing else is shown instead."""
    idea = memory.fork(place(memory, "In May?"), name="idea")
    idea.put(user("Yes, in May"))
    kept = idea.to_dict()
    with open_engine() as elsewhere:
        assert said(ArcMemory.from_dict(kept, engine=elsewhere).get_all()) == [*ROME, "Yes, in May"]
    memory.session.delete_branch("idea")
    with pytest.raises(BranchNotFoundError):
        ArcMemory.from_dict(kept)


def test_wrong_forks_are_refused(engine: ContextEngine, memory: ArcMemory) -> None:
    with pytest.raises(InvalidInputError, match="nowhere"):
        memory.fork("nowhere")
    memory.fork(name="idea")
    with pytest.raises(InvalidInputError, match="idea"):
        memory.fork(name="idea")
    with pytest.raises(SessionNotFoundError):
        ArcMemory.from_defaults(engine=engine, session_id="new").fork()
