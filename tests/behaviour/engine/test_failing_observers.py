"""A user's observer that fails breaks no call of any class that takes one, and its first failure is logged."""

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from arc_common import ArcSettings, ContextEngine, Document, HeuristicTokenCounter
from arc_common.memory.long_term.contradictions import Contradictions
from arc_common.messages import Message
from arc_common.observability import SilentObserver, guarded_observer, timed
from arc_common.otel import OpenTelemetryObserver
from arc_common.protocols import SessionKey
from arc_common.rag import RagPipeline
from arc_common.rag.context_builder import ContextBuilder
from arc_common.retrieval import HybridIndex
from arc_common.retrieval.query_transformers import ConversationAwareQueryTransformer, HyDEQueryTransformer
from arc_common.settings import RedisSettings
from arc_common.stores import SqlIndexStore
from arc_common.stores.redis_cache import CachedStore
from arc_common.testing import CountingObserver, FailingChatModel
from arc_common.testing.conversation_store_contract import counted
from llamaindex_arc import ArcConversationTransform, ArcFusionRetriever
from tests.support.summaries import talk


class FailingObserver:
    """Raises whatever it is told."""

    def count(self, name: str, value: int = 1, **tags: str) -> None:
        raise OSError(f"no route to the collector: {name}")

    def timing(self, name: str, seconds: float, **tags: str) -> None:
        raise OSError(f"no route to the collector: {name}")


class FailingTracer(FailingObserver):
    """A tracer whose spans fail where they are told to."""

    def __init__(self, at: str) -> None:
        self._at = at

    def span(self, name: str, **tags: str) -> AbstractContextManager["FailingSpan"]:
        if self._at == "span":
            raise OSError(f"no route to the collector: {name}")
        return FailingSpan(self._at)


class FailingSpan:
    def __init__(self, at: str) -> None:
        self._at = at

    def __enter__(self) -> "FailingSpan":
        return self._reach("enter")

    def __exit__(self, *error: Any) -> None:
        self._reach("exit")

    def set(self, attributes: Any) -> None:
        self._reach("set")

    def _reach(self, place: str) -> "FailingSpan":
        if self._at == place:
            raise OSError(f"no route to the collector: {place}")
        return self


OBSERVERS = [
    pytest.param(FailingObserver, id="observer"),
    *(pytest.param(lambda at=at: FailingTracer(at), id=f"tracer-{at}") for at in ("span", "enter", "set", "exit")),
    pytest.param(lambda: OpenTelemetryObserver(FailingObserver()), id="otel"),
]


@pytest.fixture
def logged_once(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Check that the observer's failure is one error in the log, with its cause."""
    caplog.set_level(logging.ERROR)
    yield
    (told,) = [one for one in caplog.get_records("call") if one.name == "arc_common.observability"]
    assert "no route to the collector" in told.getMessage()
    assert told.exc_info is not None


@pytest.mark.usefixtures("logged_once")
@pytest.mark.parametrize("observer", OBSERVERS)
def test_a_failing_observer_changes_no_turn(observer: Callable[[], Any]) -> None:
    assert _turns(observer()) == _turns(None)


def _turns(observer: Any) -> tuple[list[Message], list[Any]]:
    """Return what an engine stores and what it sends, with a summary, documents and a model that fails midway."""
    settings = ArcSettings(summary={"leaf_messages": 16}, model_calls={"attempts": 1}, memory={"enabled": False})
    with ContextEngine.open(
        "sqlite://",
        chat_model=FailingChatModel(PermissionError("invalid key")),
        settings=settings,
        observer=observer,
        token_counter=HeuristicTokenCounter(),
    ) as engine:
        engine.documents.add([Document(f"Orders like {number} travel by boat.") for number in range(12)])
        session = engine.session("s-1")
        talk(session, 40)
        assert engine.flush(60)
        window = session.context("Which order travels by boat?")
        return [one.content for one in session.messages()], [one.content for one in window.messages]


@pytest.mark.usefixtures("logged_once")
async def test_a_failing_observer_changes_no_async_turn() -> None:
    async with ContextEngine.open("sqlite://", observer=FailingTracer("enter")) as engine:
        session = engine.session("s-1")
        await session.asave_turn("My order is HN-48213.", "Thank you.")
        window = await session.acontext("Where is my order?")
    assert "HN-48213" in str(window.messages)


ONCE = ArcSettings(model_calls={"attempts": 1})


def _refused(*_: Any) -> Any:
    raise ConnectionError("refused")


class Refused:
    """A retriever, embedder and detector that can't be reached."""

    name, dimension = "refused", 2
    retrieve = embed = contradicts = _refused


class LlamaIndexRetriever(BaseRetriever):
    def __init__(self, *found: str) -> None:
        super().__init__()
        self._found = found

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(text=text), score=1.0) for text in self._found] or _refused()


def _pipeline(observer: Any) -> Any:
    return (
        RagPipeline(Refused(), ContextBuilder(HeuristicTokenCounter()), observer=observer).retrieve("boats?").documents
    )


def _index(observer: Any) -> Any:
    index = HybridIndex(SqlIndexStore.open(), embedder=Refused(), observer=observer)
    index.add([Document("boats", id="1")])
    return [one.document.id for one in index.search("boats")]


def _hyde(observer: Any) -> Any:
    return HyDEQueryTransformer(FailingChatModel(PermissionError()), settings=ONCE, observer=observer).transform(
        "boats?"
    )


def _standalone(observer: Any) -> Any:
    history = [Message("user", "Boats?"), Message("assistant", "They float.")]
    return ConversationAwareQueryTransformer(
        FailingChatModel(PermissionError()), settings=ONCE, observer=observer
    ).transform("Why?", history=history)


def _contradictions(observer: Any) -> Any:
    return Contradictions(Refused(), observer=observer).contradicts("I moved to Rome.", "I live in Oslo.")


def _cached(observer: Any) -> Any:
    unreachable = RedisSettings(url="redis://127.0.0.1:1")
    with (
        TemporaryDirectory() as folder,
        closing(CachedStore(f"sqlite:///{folder}/arc.db", redis=unreachable, observer=observer)) as store,
    ):
        return bool(store.append(SessionKey("s"), [counted("m1", "Boats?")]))


def _fusion(observer: Any) -> Any:
    parts = [LlamaIndexRetriever("boats"), LlamaIndexRetriever()]
    fused = ArcFusionRetriever(
        parts, llm=FailingChatModel(PermissionError()), num_queries=2, settings=ONCE, observer=observer
    )
    return [one.node.text for one in fused.retrieve("boats?")]


def _transform(observer: Any) -> Any:
    return ArcConversationTransform(observer=observer).run("Why?", {"chat_history": "none"}).query_str


CLASSES = [_pipeline, _index, _hyde, _standalone, _contradictions, _cached, _fusion, _transform]


@pytest.mark.usefixtures("logged_once")
@pytest.mark.parametrize("run", CLASSES, ids=lambda run: run.__name__.strip("_"))
def test_a_failing_observer_changes_no_result_of(run: Callable[[Any], Any]) -> None:
    counting = CountingObserver()
    expected = run(counting)
    assert counting.counts
    assert run(FailingObserver()) == expected


class OddTracer(SilentObserver):
    """A tracer whose spans have no `set` and claim to have handled errors."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    def timing(self, name: str, seconds: float, **tags: str) -> None:
        self.ended.append(name)

    @contextmanager
    def span(self, name: str, **tags: str) -> Iterator[None]:
        try:
            yield
        except LookupError as error:
            self.ended.append(repr(error))


def test_a_span_ends_with_its_steps_error_and_can_not_hide_it() -> None:
    tracer = OddTracer()

    def step() -> None:
        with timed(guarded_observer(tracer), "step") as span:
            span.set({"arc.total_tokens": 1})
            raise LookupError("missing")

    with pytest.raises(LookupError, match="missing"):
        step()
    assert tracer.ended == ["LookupError('missing')", "step"]
