"""Caches are bounded, usable after an interrupt at any line, and free of deleted texts."""

import functools
import gc
import sys
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from logging import Logger
from threading import Thread
from types import FrameType, ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import arc_common.caches
from arc_common import ArcSettings, ContextEngine, Document, Message, ScoredDocument, Session
from arc_common.caches import LRUCache, cached_by_hash, drop_texts, reading_texts
from arc_common.testing import ReplyingChatModel, SlowChatModel
from arc_common.tokens.counters import CachedTokenCounter, HeuristicTokenCounter

SMALL = ArcSettings.model_validate({"summary": {"trigger_message_count": 8, "recent_message_count": 2}})

KEYS = st.integers(0, 5)
WRITES = st.lists(st.tuples(st.sampled_from(["set", "get", "pop", "clear"]), KEYS, st.integers(0, 6)), max_size=40)


@given(WRITES)
def test_it_keeps_the_items_used_last(writes: list[tuple[str, int, int]]) -> None:
    cache: LRUCache[int, int] = LRUCache(10, getsizeof=lambda size: size)
    kept: OrderedDict[int, int] = OrderedDict()
    for verb, key, size in writes:
        if verb == "set":
            cache[key] = kept[key] = size
            kept.move_to_end(key)
            while sum(kept.values()) > 10:
                kept.popitem(last=False)
        elif verb == "get":
            assert cache.get(key) == kept.get(key)
            if key in kept:
                kept.move_to_end(key)
        elif verb == "pop":
            assert cache.pop(key, None) == kept.pop(key, None)
        else:
            cache.clear()
            kept.clear()
        assert list(cache.items()) == list(kept.items())
        assert len(cache) == len(kept)


def test_an_item_larger_than_the_cache_is_refused() -> None:
    with pytest.raises(ValueError, match="too large"):
        LRUCache[str, str](3, getsizeof=len)["a"] = "four"


def is_interrupted(call: Callable[[], object], *, stop: int) -> bool:
    """Call a function with Ctrl-C at the line of the caches' module that runs as number `stop`, if so many run."""
    passed = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal passed
        if frame.f_code.co_filename != arc_common.caches.__file__:
            return None
        passed += event == "line"
        if event == "line" and passed == stop:
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def test_an_interrupt_at_any_line_leaves_it_usable() -> None:
    """Ctrl-C while a cache is written must not make later calls of the session fail."""
    lines = 0
    for stop in range(1, 100):
        cache: LRUCache[str, str] = LRUCache(6, getsizeof=len)
        cache["a"], cache["b"] = "one", "two"

        def write(cache: LRUCache[str, str] = cache) -> None:
            cache["a"] = "six"
            cache.pop("b", None)
            cache["c"] = "seven"

        lines += is_interrupted(write, stop=stop)
        for name in "abcd":
            cache.pop(name, None)
            cache[name] = name * 3
        assert dict(cache) == {"c": "ccc", "d": "ddd"}
    assert 10 < lines < 99


def test_interrupted_work_leaves_nothing_that_keeps_deletions() -> None:
    """Otherwise each later deletion, with its engine, would stay in memory."""
    lines = 0
    for stop in range(1, 40):
        lines += is_interrupted(reading_texts()(list), stop=stop)
        deletion = functools.partial(len, "")
        watch = weakref.ref(deletion)
        drop_texts(deletion)
        del deletion
        assert watch() is None, stop
    assert 4 < lines < 39


class WatchedText(str):
    """A text that a weak reference can watch."""

    __slots__ = ("__weakref__",)


def test_what_is_remembered_by_hash_is_bounded_and_holds_no_text() -> None:
    """An erased user's texts must not stay in a cache of the process."""
    asked: list[int] = []

    @cached_by_hash(2)
    def length(text: str) -> int:
        asked.append(len(text))
        return len(text)

    text = WatchedText("My safe opens with 4821.")
    watch = weakref.ref(text)
    assert [length(text), length(str(text)), asked] == [24, 24, [24]]
    del text
    assert watch() is None
    assert [length(one) for one in ("a", "bc", "a", "def", "a")] == [1, 2, 1, 3, 1]


def test_texts_of_the_same_bytes_are_not_confused() -> None:
    """Python hashes texts alike if their characters have the same bytes, whatever their width."""
    korean = "안녕하세요"
    latin = korean.encode("utf-16-le").decode("latin-1")
    assert hash(latin) == hash(korean)

    @cached_by_hash(10)
    def same(text: str) -> str:
        return text

    assert [same(korean), same(latin)] == [korean, latin]
    counter = CachedTokenCounter(HeuristicTokenCounter())
    assert counter.count_batch([korean, latin]) == HeuristicTokenCounter().count_batch([korean, latin])


def cached_texts(*owners: object) -> set[str]:
    """Return the texts in the arguments and results of arc's `lru_cache`s, and in what some objects refer to."""
    modules = [module for name, module in sys.modules.items() if name.startswith("arc_common")]
    places = [*modules, *(one for module in modules for one in vars(module).values() if isinstance(one, type))]
    found = [getattr(one, "__func__", one) for place in places for one in vars(place).values()]
    left: list[Any] = [one for one in found if isinstance(one, type(functools.lru_cache(len)))]
    assert len(left) > 10
    seen = set(map(id, left))
    left += owners
    texts: set[str] = set()
    while left:
        place = left.pop()
        keys = list(place) if isinstance(place, dict) else []  # strings among them are not referents
        for one in [*keys, *gc.get_referents(place)]:
            if isinstance(one, str):
                texts.add(one)
            elif isinstance(one, ModuleType | type | Logger) or (isinstance(one, dict) and "__builtins__" in one):
                continue
            elif id(one) not in seen:
                seen.add(id(one))
                left.append(one)
    return texts


def held(*owners: object) -> list[str]:
    return [text for text in cached_texts(*owners) if "quixandria" in text.casefold()]


class NothingContradicts:
    """A detector that finds no contradiction."""

    def contradicts(self, statement: str, earlier: Sequence[str]) -> list[bool]:
        return [False for _ in earlier]


def test_no_cache_holds_the_text_of_what_was_deleted() -> None:
    """This covers conversations, memories, documents and questions about them."""
    with ContextEngine.open(contradiction_detector=NothingContradicts()) as engine:
        session = engine.session("s", user_id="ann")
        session.save_turn("My sister Jule lives in Quixandria.", "Noted.")
        session.summarize()
        session.context("Who lives in Quixandria?")
        assert held()
        session.delete()
        assert engine.flush(30)
        assert not held(engine)
        memories = engine.memories(user_id="ann")
        memory = memories.add("Ann moved to Quixandria.")
        memories.search("Who moved to Quixandria?")
        memories.add("Ann moved to Quixandria in May.")
        assert held()
        memories.delete(memory.id)
        assert not held()
        (document,) = engine.documents.add(["Quixandria is a town."])
        engine.documents.search("What is Quixandria?")
        assert held()
        engine.documents.delete([document])
        assert not held()
        engine.admin.erase(caller_id="default", user_id="ann")
        assert not held(engine)


class SlowRetriever(SlowChatModel):
    """Returns one document, but only once it is allowed to."""

    def retrieve(self, query: str, **_: object) -> list[ScoredDocument]:
        return [ScoredDocument(Document(f"{query} {self.complete([])}"))]


DELETIONS: dict[str, Callable[[ContextEngine, Session], object]] = {
    "delete": lambda _, session: session.delete(),
    "soft": lambda _, session: session.delete(soft=True),
    "clear": lambda _, session: session.clear(),
    "remove": lambda _, session: session.remove([message.id or "" for message in session.messages()]),
    "erase": lambda engine, _: (
        engine.memories(user_id="ann").add("Ann moved to Quixandria."),
        engine.admin.erase(caller_id="default", user_id="ann"),
    ),
    "purge": lambda engine, session: (session.delete(soft=True), engine.admin.purge()),
}


@pytest.mark.parametrize("way", DELETIONS)
def test_work_that_runs_during_a_deletion_puts_no_text_back(way: str) -> None:
    """A background summary and a reply have read a session when it is deleted."""
    answer = ReplyingChatModel(["Far."])
    model, retriever = SlowChatModel(answer), SlowRetriever(answer)
    with ContextEngine.open(chat_model=model, retriever=retriever, settings=SMALL) as engine:
        session = engine.session("s", user_id="ann")
        said = ["My sister Jule lives in Quixandria.", "Is Quixandria far?", "I love Quixandria!"] * 4
        for text in said:
            session.save_turn(text, f"Noted: {text}")
        with ThreadPoolExecutor(1) as threads:
            assert model.asked.wait(30)
            reply = threads.submit(session.context, "Who lives in Quixandria?")
            assert retriever.asked.wait(30)
            DELETIONS[way](engine, session)
            model.may_answer.set()
            retriever.may_answer.set()
            reply.exception(30)
            del reply
        assert engine.flush(30)
        answer.requests.clear()
        assert not held(engine)


def test_searches_and_deletions_never_wait_for_each_other() -> None:
    """A database in memory has one connection, which both need; each deletion removes a memory that is searched."""
    engine = ContextEngine.open()
    memories = engine.memories(user_id="ann")

    def delete() -> None:
        for name in map(str, range(12)):
            session = engine.session(name, user_id="ann")
            session.append([Message("user", f"My sister {name} lives in Porto.", id="m")])
            memories.extract(session.messages()[0], session_id=name)
            session.delete()

    deleting = Thread(target=delete, daemon=True)
    searching = Thread(target=lambda: [memories.search("Who lives in Porto?") for _ in iter(deleting.is_alive, False)])
    searching.daemon = True
    deleting.start()
    searching.start()
    searching.join(30)
    assert not searching.is_alive()
    assert memories.count() == 0
    engine.close()
