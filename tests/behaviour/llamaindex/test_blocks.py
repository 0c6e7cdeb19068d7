"""Arc's memory blocks inside LlamaIndex's `Memory`."""

import asyncio
import copy
import itertools
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.memory import InsertMethod, Memory
from llama_index.core.utils import get_tokenizer

from arc_common.engine.context_engine import ContextEngine
from llamaindex_arc import ArcFactsBlock, ArcRecallBlock, ArcSummaryBlock, open_engine
from tests.support.databases import sqlite_url
from tests.support.llamaindex_helpers import NO_SUMMARIES, assistant, break_writes, mend_writes, put, said, settle, user

BLOCKS = [ArcFactsBlock, ArcSummaryBlock]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[ContextEngine]:
    with open_engine(sqlite_url(tmp_path, "c.db")) as opened:
        yield opened


def told(number: int, *, about: str = "A") -> list[ChatMessage]:
    """Return turns, each with its own order number."""
    return [
        message
        for n in range(number)
        for message in (
            user(f"My order number is {about}-{1000 + n}, and it must not be sent to Berlin."),
            assistant(f"Order {about}-{1000 + n} goes to Lisbon, on day {n}."),
        )
    ]


pytestmark = pytest.mark.usefixtures("blocking_loop")

MakeMemory = Callable[..., Memory]


def stored(engine: ContextEngine, session_id: str = "s") -> list[str]:
    return [message.text for message in engine.session(session_id).messages()]


def leading(memory: Memory) -> str:
    return asyncio.run(memory.aget())[0].content or ""


@pytest.mark.parametrize(
    ("insert_method", "through_async"), [(InsertMethod.SYSTEM, False), (InsertMethod.USER, True)], ids=["sync", "async"]
)
def test_what_memory_lets_go_is_in_its_blocks(
    engine: ContextEngine, insert_method: InsertMethod, through_async: bool, memory_of: MakeMemory
) -> None:
    """Each message is in the queue or in arc's session, once; facts and narrative are in the prompt."""
    blocks = [ArcFactsBlock(engine), ArcSummaryBlock(engine)]
    memory = memory_of("s", *blocks, insert_method=insert_method)
    if through_async:
        put(memory, told(15))
    else:
        for message in told(15):
            memory.put(message)
    queue = memory.get_all() if not through_async else asyncio.run(memory.aget_all())
    assert said(queue) == said(told(15))
    shown = memory.get() if not through_async else asyncio.run(memory.aget())
    role = MessageRole.SYSTEM if insert_method is InsertMethod.SYSTEM else MessageRole.USER
    text = next(message.content or "" for message in shown if "<memory>" in (message.content or ""))
    assert [message.role for message in shown if "<memory>" in (message.content or "")] == [role]
    for expected in ("<ArcFacts>", "</ArcFacts>", "<ArcSummary>", "\n- ", "\nSummary:\n", "A-1000"):
        assert expected in text
    kept = len(stored(engine))
    assert 16 <= kept < 30
    assert stored(engine) == said(told(15))[:kept]


@pytest.mark.parametrize("block", BLOCKS)
def test_nothing_is_shown_before_anything_is_put(engine: ContextEngine, block: Any, memory_of: MakeMemory) -> None:
    """This covers an unknown session, and one that `Memory` still holds whole."""
    memory = memory_of("s", block(engine))
    put(memory, told(1))
    assert said(asyncio.run(memory.aget())) == said(told(1))


def test_facts_are_there_at_once(engine: ContextEngine) -> None:
    """Facts of unsummarised messages are shown, too; the summary says only what they don't."""
    facts, narrative = ArcFactsBlock(engine), ArcSummaryBlock(engine)
    asyncio.run(facts.aput(told(2), session_id="s"))
    assert engine.session("s").summary() is None
    assert "- user: My order number is A-1001" in asyncio.run(facts.aget(session_id="s"))
    summary = asyncio.run(narrative.aget(session_id="s"))
    assert " goes to Lisbon, on day " in summary
    assert "My order number" not in summary


def test_two_sessions_through_one_block_never_mix(engine: ContextEngine, memory_of: MakeMemory) -> None:
    """One object serves two memories."""
    blocks = [ArcFactsBlock(engine), ArcSummaryBlock(engine)]
    one, other = memory_of("one", *blocks), memory_of("other", *blocks)

    async def both() -> None:
        for mine, yours in zip(told(15, about="ONE"), told(15, about="OTHER"), strict=True):
            await asyncio.gather(one.aput(mine), other.aput(yours))

    asyncio.run(both())
    assert "ONE-1000" in leading(one)
    assert "OTHER" not in leading(one)
    assert "OTHER-1000" in leading(other)
    assert "ONE" not in leading(other)
    assert not any("OTHER" in text for text in stored(engine, "one"))


def test_a_restart_finds_it_again(tmp_path: Path, memory_of: MakeMemory) -> None:
    """A new `Memory` with an empty queue shows what an earlier process put."""
    url = sqlite_url(tmp_path, "c.db")
    with open_engine(url) as engine:
        put(memory_of("s", ArcFactsBlock(engine), ArcSummaryBlock(engine)), told(15))
        kept = len(stored(engine))
    with open_engine(url) as engine:
        memory = memory_of("s", ArcFactsBlock(engine), ArcSummaryBlock(engine))
        assert "A-1000" in leading(memory)
        put(memory, told(15))  # an app with its own history puts it again
        assert stored(engine)[:kept] == said(told(15))[:kept]
        assert len(stored(engine)) == len(set(stored(engine)))


@given(data=st.data())
@settings(max_examples=15)
def test_whatever_is_delivered_again_is_stored_once(data: st.DataObject) -> None:
    """Several blocks, concurrent and in any batches of whole turns, store each message once, in order."""
    number = data.draw(st.integers(1, 8))
    messages = told(number)

    def batches() -> list[list[ChatMessage]]:
        cuts = sorted(data.draw(st.sets(st.integers(1, max(number - 1, 1)), max_size=3)) | {0, number})
        return [messages[2 * a : 2 * b] for a, b in itertools.pairwise(cuts)]

    with open_engine() as engine:
        blocks = [ArcFactsBlock(engine), ArcSummaryBlock(engine)]

        async def deliver(batch: list[ChatMessage]) -> None:
            await asyncio.gather(*(block.aput(batch, from_short_term_memory=True, session_id="s") for block in blocks))

        for batch in batches():
            asyncio.run(deliver(batch))
        assert stored(engine) == said(messages)
        for batch in batches():
            asyncio.run(deliver(batch))
        assert stored(engine) == said(messages)


def test_the_same_answer_twice_in_a_batch_is_two(engine: ContextEngine) -> None:
    """Equal turns in one batch are several; a tool's name and arguments distinguish turns."""
    block = ArcFactsBlock(engine)
    yes = [user("yes"), assistant("ok")]
    asyncio.run(block.aput([*yes, *yes, user("yes"), assistant("done")], session_id="s"))
    assert stored(engine) == ["yes", "ok", "yes", "ok", "yes", "done"]


def test_what_is_put_is_not_changed_and_stored_as_it_was(engine: ContextEngine) -> None:
    """`Memory` adds the session id for its blocks; it is not stored, and no object is modified."""
    message = ChatMessage(role="user", content="Hello there.", additional_kwargs={"name": "Ana"})
    asyncio.run(ArcFactsBlock(engine).aput([message], session_id="s"))
    assert message.additional_kwargs == {"name": "Ana"}
    (kept,) = engine.session("s").messages()
    assert kept.name == "Ana"
    assert kept.origin is None


def test_messages_can_be_refused(engine: ContextEngine) -> None:
    """A block may reject messages that leave the queue."""
    block = ArcFactsBlock(engine, accept_short_term_memory=False)
    asyncio.run(block.aput(told(2), from_short_term_memory=True, session_id="s"))
    assert stored(engine) == []


def test_what_arc_showed_is_not_stored(engine: ContextEngine, memory_of: MakeMemory) -> None:
    """A prompt put back into the memory is not a source of facts."""
    blocks = [ArcFactsBlock(engine), ArcSummaryBlock(engine)]
    memory = memory_of("s", *blocks)
    put(memory, told(15))
    before = stored(engine)
    asyncio.run(blocks[0].aput(asyncio.run(memory.aget())[:1], session_id="s"))
    assert stored(engine) == before


# --- failures -------------------------------------------------------------------------------------------------------


class Errors:
    """Records and counts failed saves."""

    def __init__(self) -> None:
        self.lost: list[tuple[str, int]] = []
        self.counted: list[str] = []

    def __call__(self, error: Exception, messages: Any) -> None:
        self.lost.append((type(error).__name__, len(messages)))

    def count(self, name: str, value: int = 1, **tags: str) -> None:
        self.counted.append(name)

    def timing(self, name: str, seconds: float, **tags: str) -> None:
        """Do nothing."""


def test_a_failing_store_does_not_break_the_reply(tmp_path: Path) -> None:
    """It is reported; missing messages are stored with the next ones, once."""
    errors = Errors()
    with open_engine(sqlite_url(tmp_path, "c.db"), on_save_error=errors) as engine:
        block = ArcFactsBlock(engine)
        asyncio.run(block.aput(told(1), session_id="s"))
        break_writes(tmp_path / "c.db")
        asyncio.run(block.aput(told(2)[2:], session_id="s"))
        assert errors.lost == [("StoreError", 2)]
        mend_writes(tmp_path / "c.db")
        asyncio.run(block.aput(told(3)[4:], session_id="s"))
        assert stored(engine) == said(told(3))


@pytest.mark.parametrize(
    ("messages", "session_id"),
    [
        ([user("q")], None),
        ([user("q")], "x" * 300),
        ([ChatMessage(role="user", content="q", additional_kwargs={"f": object()})], "s"),
    ],
    ids=["no session", "no id", "not storable"],
)
def test_bad_input_does_not_break_the_reply(
    engine: ContextEngine, messages: list[ChatMessage], session_id: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says that the turn was not saved."""
    asyncio.run(ArcFactsBlock(engine).aput(messages, session_id=session_id))
    assert "was not saved" in caplog.text
    assert stored(engine) == []


def test_without_summaries_the_blocks_are_empty(memory_of: MakeMemory) -> None:
    """Messages are stored and nothing is shown."""
    with open_engine(settings=NO_SUMMARIES) as engine:
        blocks = [ArcFactsBlock(engine), ArcSummaryBlock(engine)]
        memory = memory_of("s", *blocks)
        put(memory, told(15))
        assert len(stored(engine)) > 10
        assert "arc:" not in leading(memory)


# --- room -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", BLOCKS)
def test_it_gives_up_its_oldest_lines_first(engine: ContextEngine, block: Any) -> None:
    """It gives up the requested tokens in whole lines."""
    made = block(engine)
    asyncio.run(made.aput(told(30), session_id="s"))
    settle(engine)
    content = asyncio.run(made.aget(session_id="s"))
    count, lines = engine.token_counter.count, content.split("\n")
    for tokens in (1, 20, 60):
        shorter = asyncio.run(made.atruncate(content, tokens))
        if shorter is None:
            assert len(lines) < 9
            continue
        assert count(content) - count(shorter) >= tokens - 1
        fewer = shorter.split("\n")
        assert fewer[:4] == lines[:4]
        assert fewer[4:] == lines[-len(fewer[4:]) :]


@pytest.mark.parametrize("content", ["", []])
def test_truncating_empty_content_gives_nothing(engine: ContextEngine, content: Any) -> None:
    """`Memory` also truncates empty content."""
    assert asyncio.run(ArcFactsBlock(engine).atruncate(content, 10)) is None


def test_memory_shortens_them_to_its_limit(engine: ContextEngine, memory_of: MakeMemory) -> None:
    """With a priority, blocks are shortened before messages."""
    block = ArcFactsBlock(engine, priority=1)
    memory = memory_of("s", block, token_limit=700)
    put(memory, told(40))
    text = leading(memory)
    assert "</arc:memory>" in text
    assert "A-1000" not in text
    tokenizer = get_tokenizer()
    assert (
        sum(len(tokenizer(message.content or "")) for message in asyncio.run(memory.aget())) <= 700 + 30
    )  # the block's tags


def test_its_text_is_no_template(engine: ContextEngine, memory_of: MakeMemory) -> None:
    """Neither `Memory`'s template nor the chat engines' formatting interprets it."""
    block = ArcFactsBlock(engine)
    asked = user("My template must not contain {context_str} or {{ x }} or {% raw %} or <b>.")
    memory = memory_of("s", block)
    put(memory, [asked, assistant("Noted."), *told(15)])
    text = leading(memory)
    assert "{ context_str}" in text
    assert "{% raw %} or <b>" in text


def test_copies_share_the_engine(engine: ContextEngine) -> None:
    """A copy is equivalent; pickling would lose the connections and raises an error."""
    for block in (
        ArcFactsBlock(engine, name="Facts", priority=2, description="what is known", caller_id="c"),
        ArcRecallBlock(engine, user_id="ann", priority=2),
    ):
        copied = copy.deepcopy(block)
        assert copied.engine is engine
        assert copied.model_dump() == block.model_dump()
        with pytest.raises(TypeError, match=type(block).__name__):
            pickle.dumps(block)
