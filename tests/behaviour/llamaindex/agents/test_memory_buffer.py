"""The situations of LlamaIndex's own tests for `ChatMemoryBuffer` and `Memory`, with `ArcChatMemoryBuffer` in place.

Two answers differ on purpose: an initial count beyond the limit is no error, and the newest question is never dropped.
`Memory` with arc's blocks: see `test_blocks`.
"""

import asyncio
import pickle
from collections.abc import Callable
from itertools import count, pairwise
from typing import Any

import pytest
from llama_index.core.base.llms.types import (
    AudioBlock,
    ChatMessage,
    DocumentBlock,
    ImageBlock,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    VideoBlock,
)
from llama_index.core.memory import ChatMemoryBuffer, ChatSummaryMemoryBuffer
from llama_index.core.utils import get_tokenizer

from arc_common.tokens.budget import usable_tokens
from llamaindex_arc import ArcChatMemoryBuffer, ArcChatStore, to_arc
from llamaindex_arc.models import CounterAsTokenizer
from tests.support.llamaindex_helpers import assistant, calling, result, said, user

Q1, A1 = user("first message"), assistant("first answer")
Q2, A2 = user("second message"), assistant("second answer")


def memory_of(*history: ChatMessage, **given: Any) -> ArcChatMemoryBuffer:
    return ArcChatMemoryBuffer.from_defaults(chat_history=list(history), **given)


def cost(memory: ArcChatMemoryBuffer, *messages: ChatMessage) -> int:
    """What they are counted at by themselves."""
    alone = memory_of(*messages, tokenizer_fn=memory.tokenizer_fn, token_limit=10_000)
    return sum(alone._count(to_arc(message)) for message in messages)


def room_in(memory: ArcChatMemoryBuffer, limit: int) -> int:
    """The tokens of a limit that may be counted: the error that the engine's counter states is kept free."""
    is_engines = isinstance(memory.tokenizer_fn, CounterAsTokenizer)
    return usable_tokens(limit, memory.chat_store.engine.token_counter) if is_engines else limit


def limit_for(memory: ArcChatMemoryBuffer, tokens: int) -> int:
    """The least limit with room for so many counted tokens."""
    return next(limit for limit in count(tokens) if room_in(memory, limit) >= tokens)


class Ways:
    """A memory through its blocking methods, or through its async ones under the blocking ones' names."""

    def __init__(self, memory: ArcChatMemoryBuffer, way: str) -> None:
        self._memory, self._way = memory, way

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if self._way == "sync":
            return getattr(self._memory, name)  # type: ignore[no-any-return]  # a method, whichever
        twin = getattr(self._memory, f"a{name}")
        return lambda *args, **kwargs: asyncio.run(twin(*args, **kwargs))


ways = pytest.mark.parametrize("way", ["sync", "async"])
tokenizers = pytest.mark.parametrize("tokenizer_fn", [None, get_tokenizer()], ids=["engine's", "tiktoken"])


# --- ChatMemoryBuffer -----------------------------------------------------------------------------------------------


@ways
def test_put_and_get(way: str) -> None:
    """What it began with comes back, in objects of the caller's own."""
    got = Ways(memory_of(Q1), way).get()
    assert got == [Q1]
    assert got[0] is not Q1


def test_a_number_in_the_inputs_place_is_no_count() -> None:
    """Their tests hand the initial count over by position, where the input goes."""
    assert memory_of(Q1, token_limit=1_000).get(5) == [Q1]  # type: ignore[arg-type]  # as they do


@ways
@tokenizers
def test_an_initial_count_less_than_the_limit_leaves_the_history(way: str, tokenizer_fn: Any) -> None:
    """A long limit and a short prompt."""
    memory = memory_of(Q1, token_limit=1_000, tokenizer_fn=tokenizer_fn)
    assert Ways(memory, way).get(initial_token_count=5) == [Q1]


@ways
@pytest.mark.parametrize("taken", [49, 50, 10**9])
def test_an_initial_count_at_or_beyond_the_limit_is_no_error(way: str, taken: int) -> None:
    """Theirs raises `ValueError`; here nothing is returned but what no request can do without."""
    assert Ways(memory_of(token_limit=49), way).get(initial_token_count=taken) == []
    assert Ways(memory_of(Q1, A1, Q2, token_limit=49), way).get(initial_token_count=taken) == [Q2]


@ways
@tokenizers
def test_no_answer_is_left_without_its_question(way: str, tokenizer_fn: Any) -> None:
    """Where there is room for an answer only, its turn is not shown."""
    memory = memory_of(Q1, A1, Q2, A2, token_limit=10_000, tokenizer_fn=tokenizer_fn)
    newest = cost(memory, Q2, A2)
    for room in range(newest, cost(memory, Q1, A1, Q2, A2)):
        memory.token_limit = limit_for(memory, room)
        assert Ways(memory, way).get() == [Q2, A2]
        memory.token_limit = 10_000
        assert Ways(memory, way).get(initial_token_count=room_in(memory, 10_000) - room) == [Q2, A2]


@ways
@tokenizers
def test_all_is_returned_where_all_fits(way: str, tokenizer_fn: Any) -> None:
    """To the last token."""
    memory = memory_of(Q1, A1, Q2, A2, token_limit=10_000, tokenizer_fn=tokenizer_fn)
    everything = [Q1, A1, Q2, A2]
    taken = room_in(memory, 10_000) - cost(memory, *everything)
    assert Ways(memory, way).get(initial_token_count=taken) == everything
    assert Ways(memory, way).get(initial_token_count=taken + 1) == [Q2, A2]


@ways
def test_set(way: str) -> None:
    """The history becomes what is set."""
    memory = Ways(memory_of(Q1), way)
    memory.put(Q1)
    assert len(memory.get()) == 2
    memory.set([Q1])
    assert len(memory.get()) == 1
    memory.set([])
    assert memory.get() == []


@ways
@tokenizers
def test_the_limit_counts_and_the_order_stays(way: str, tokenizer_fn: Any) -> None:
    """`get` returns the newest that fit, `get_all` everything."""
    memory = memory_of(Q1, tokenizer_fn=tokenizer_fn)
    memory.token_limit = limit_for(memory, 2 * cost(memory, Q1))
    through = Ways(memory, way)
    through.put(Q1)
    assert len(through.get()) == 2
    through.put(Q1)
    through.put(Q1)
    assert len(through.get()) == 2
    assert len(through.get_all()) == 4
    through.put(user("test message2"))
    assert through.get()[-1].content == "test message2"
    assert len(through.get()) <= 2


@pytest.mark.parametrize(
    "there_and_back",
    [
        lambda memory: ArcChatMemoryBuffer.from_string(memory.to_string()),
        lambda memory: ArcChatMemoryBuffer.from_dict(memory.to_dict()),
        lambda memory: pickle.loads(pickle.dumps(memory)),  # noqa: S301 - pickled on the line itself
        lambda memory: pickle.loads(pickle.dumps(memory, protocol=2)),  # noqa: S301 - as above
    ],
    ids=["string", "dict", "pickle", "old pickle"],
)
def test_save_and_load(there_and_back: Callable[[ArcChatMemoryBuffer], ArcChatMemoryBuffer]) -> None:
    """The messages and the limit come along, under whatever the counter is."""
    restored = there_and_back(memory_of(Q1, A1, token_limit=50))
    assert isinstance(restored, ChatMemoryBuffer)
    assert restored.get() == [Q1, A1]
    assert restored.token_limit == 50
    assert there_and_back(memory_of()).get() == []


def test_pickles_with_a_tokenizer_that_does_not() -> None:
    """Theirs is tiktoken's, which is left behind."""
    memory = memory_of(Q1, tokenizer_fn=lambda text: text.split())
    assert pickle.loads(pickle.dumps(memory)).get() == [Q1]  # noqa: S301 - pickled on the line itself


# --- Memory: the same conversations -----------------------------------------------------------------------------------


@ways
def test_under_the_limit_everything_is_there(way: str) -> None:
    """Short messages, put one by one or together, set, and reset."""
    memory = Ways(memory_of(token_limit=1_000), way)
    memory.put(user("Short message"))
    memory.put_messages([assistant("Response 1"), user("Message 2")])
    assert said(memory.get()) == ["Short message", "Response 1", "Message 2"]
    memory.set([user("Message 1"), assistant("Response 1")])
    assert said(memory.get()) == said(memory.get_all()) == ["Message 1", "Response 1"]
    memory.reset()
    assert memory.get() == memory.get_all() == []


@ways
def test_over_the_limit_the_newest_question_is_left(way: str) -> None:
    """Three messages of which one fits; what is not shown is not gone."""
    memory = Ways(memory_of(token_limit=1_500), way)
    memory.put_messages([user("x " * 500), assistant("y " * 500), user("z " * 500)])
    got = memory.get()
    assert got[-1].content == "z " * 500
    assert got[0].role is MessageRole.USER
    assert len(memory.get_all()) == 3


LONG = [
    pytest.param([user("x " * 100), assistant("ok")], id="large question, small answer"),
    pytest.param([user("a " * 50), assistant("b " * 50), user("c " * 50), assistant("d " * 50)], id="two turns"),
    pytest.param([user("a " * 40), calling("1", text="b " * 20), result("1", "c " * 20), assistant("d " * 20)], id="t"),
    pytest.param([user("x " * 50), calling("1", text="call"), result("1", "result")], id="a result last"),
    pytest.param([user("x " * 50), assistant("call"), result("1", "result")], id="a result of no call"),
]


@ways
@pytest.mark.parametrize("conversation", LONG)
@pytest.mark.parametrize("spare", [0, 5, 20, 60, 200])
def test_a_request_begins_with_the_user(way: str, conversation: list[ChatMessage], spare: int) -> None:
    """However little fits beside the newest question; results stand behind their calls."""
    memory = memory_of(*conversation, token_limit=10_000)
    asked = [message for message in conversation if message.role is MessageRole.USER][-1]
    memory.token_limit = limit_for(memory, cost(memory, asked) + spare)
    got = Ways(memory, way).get()
    assert got[0].role is MessageRole.USER
    assert asked in got
    for before, message in pairwise(got):
        assert message.role is not MessageRole.TOOL or before.role in (MessageRole.ASSISTANT, MessageRole.TOOL)
    assert cost(memory, *got) <= room_in(memory, memory.token_limit)


def test_large_tool_calls_do_not_grow_without_bound() -> None:
    """A call's arguments cost what they are long."""
    memory = memory_of(token_limit=400, tokenizer_fn=str.split)
    for n in range(10):
        big = ToolCallBlock(tool_call_id=f"c{n}", tool_name="search", tool_kwargs={"query": "word " * 200})
        memory.put_messages([user("hi"), ChatMessage(role="assistant", blocks=[big]), result(f"c{n}")])
    assert 3 <= len(memory.get()) < 9
    assert len(memory.get_all()) == 30


def test_every_kind_of_block_costs_something_and_comes_back() -> None:
    """Pictures, videos, sounds, documents, thinking and calls are not free, and none is looked up or fetched."""
    cases = [
        TextBlock(text="Test message"),
        ImageBlock(url="http://example.com/image.jpg"),
        VideoBlock(url="http://example.com/video.mp4"),
        AudioBlock(url="http://example.com/audio.mp3"),
        DocumentBlock(url="http://example.com/doc.pdf", document_mimetype="application/pdf"),
        ThinkingBlock(content="let me reason about this carefully"),
        ToolCallBlock(tool_call_id="c1", tool_name="search", tool_kwargs={"query": "word " * 50}),
    ]
    for block in cases:
        message = ChatMessage(role="assistant", blocks=[block])
        memory = memory_of(user("q"), message, result("c1"), token_limit=20_000)
        assert cost(memory, message) > cost(memory, ChatMessage(role="assistant", blocks=[]))
        assert message in memory.get()


async def test_concurrent_puts_keep_every_message() -> None:
    """As many as there are, each once."""
    memory = memory_of(token_limit=60)
    await asyncio.gather(*(memory.aput(user(f"new{n} " + "word " * 12)) for n in range(20)))
    assert sorted(said(memory.get_all())) == sorted(f"new{n} " + "word " * 12 for n in range(20))  # type: ignore[type-var]  # no None


def test_blocking_puts_work_across_event_loops() -> None:
    """One object, used from several loops and from none."""
    memory = memory_of(token_limit=1_000)
    memory.put(user("one"))
    asyncio.run(memory.aput(user("two")))
    asyncio.run(memory.aput(user("three")))
    assert said(memory.get_all()) == ["one", "two", "three"]


# --- their memories over our store ------------------------------------------------------


def test_their_buffers_over_our_store() -> None:
    """`ArcChatStore` where they keep `SimpleChatStore`."""
    store = ArcChatStore()
    theirs = ChatMemoryBuffer.from_defaults(chat_history=[Q1, A1], chat_store=store, chat_store_key="one")
    theirs.put(Q2)
    assert theirs.get() == store.get_messages("one") == [Q1, A1, Q2]
    theirs.set([Q2])
    assert theirs.get_all() == [Q2]
    theirs.reset()
    assert theirs.get_all() == []
    summary = ChatSummaryMemoryBuffer.from_defaults(chat_history=[Q1, A1], chat_store=store, chat_store_key="two")
    summary.put(Q2)
    assert summary.get() == store.get_messages("two") == [Q1, A1, Q2]
