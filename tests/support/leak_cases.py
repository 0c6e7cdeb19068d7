"""Every public method that reads stored data, as a function of the calling party, and the methods that need no case."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableLambda
from langgraph.store.base import GetOp, SearchOp
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.schema import QueryBundle

import langchain_arc
import llamaindex_arc
from arc_common import ContextEngine, Session
from tests.support.langchain_agents import ScriptedToolModel
from tests.support.leak_world import QUESTION, Letters, Level, Party, memories_of

EVERY: tuple[Level, ...] = ("session", "user", "caller")
VECTOR = Letters().embed([QUESTION])[0]


@dataclass(frozen=True, slots=True)
class Read:
    """A public read.

    Args:
        run: Performs it with an engine for a party.
        reaches: The levels whose texts the result may contain.
        finds: The levels whose texts it must contain if the party has any; otherwise the case would show nothing.
    """

    run: Callable[[ContextEngine, Party], Any]
    reaches: tuple[Level, ...]
    finds: tuple[Level, ...]


READS: dict[str, Read] = {}
"""The reads by `Class.method`, with a suffix if there are several."""

NO_READS: dict[str, str] = {}
"""Public names that need no case, with the reason."""

Face = Callable[[ContextEngine, Party], Any]


def reads(names: str, *, reaches: tuple[Level, ...], finds: tuple[Level, ...] | None = None) -> Callable[[Face], Face]:
    """Register a function as the read behind these names."""

    def note(run: Face) -> Face:
        for name in names.split(", "):
            READS[name] = Read(run, reaches, reaches if finds is None else finds)
        return run

    return note


def calls(face: Face, name: str, *args: Any, **given: Any) -> Face:
    """Return a read that calls the blocking and the async form of a method."""

    def run(engine: ContextEngine, party: Party) -> list[Any]:
        held = face(engine, party)
        found = [getattr(held, name)(*args, **given)]
        twin = getattr(held, f"a{name}", None)
        return found if twin is None else [*found, asyncio.run(twin(*args, **given))]

    return run


def no_reads(names: str, *, because: str) -> None:
    NO_READS.update(dict.fromkeys(names.split(), because))


# --- the engine -------------------------------------------------------------------------------------------------------


def session_of(engine: ContextEngine, party: Party) -> Session:
    return engine.session(party.session, user_id=party.user, caller_id=party.caller, branch=party.branch)


SESSION_READS: dict[str, Face] = {
    "messages": calls(session_of, "messages"),
    "messages limit": calls(session_of, "messages", limit=2, before="m2"),
    "stored": calls(session_of, "stored", limit=2),
    "find": calls(session_of, "find", ["m0", "m1", "m24"]),
    "window": calls(session_of, "window"),
    "window verbatim": calls(session_of, "window", include_summary=False, max_messages=4),
    "facts": calls(session_of, "facts", include_superseded=True, include_ungrounded=True, include_excerpts=True),
    "pins": calls(session_of, "pins"),
    "summary": calls(session_of, "summary"),
    "summarize": calls(session_of, "summarize"),
    "recall": calls(session_of, "recall", QUESTION, top_k=50),
}
for _name, _run in SESSION_READS.items():
    reads(f"Session.{_name}", reaches=("session",))(_run)
reads("Session.context", reaches=EVERY)(calls(session_of, "context", QUESTION))
reads("Session.context history", reaches=EVERY)(calls(session_of, "context"))
reads("Session.exists, Session.id", reaches=())(
    lambda engine, party: [session_of(engine, party).exists(), session_of(engine, party).id]
)
reads("Session.branches, Session.branch", reaches=())(calls(session_of, "branches"))


@reads("Session.receipt, Session.receipt_events", reaches=EVERY, finds=())
def last_receipt(engine: ContextEngine, party: Party) -> Any:
    """Return the receipt of a new request."""
    session_of(engine, party).context(QUESTION)
    return [calls(session_of, name)(engine, party) for name in ("receipt", "receipt_events")]


no_reads(
    "Session.append Session.save_turn Session.add_artifact Session.clear Session.delete Session.remove "
    "Session.stream_turn Session.report_save_error Session.note Session.remember Session.pin Session.unpin "
    "Session.fork Session.rewind Session.switch Session.delete_branch Session.compact Session.resume Session.archive",
    because="writes, or gives back what it was given",
)
no_reads("ContextEngine.flush", because="waits, and gives back no more than whether it did")
no_reads(
    "ContextEngine.session ContextEngine.documents_of ContextEngine.items_of ContextEngine.admin ContextEngine.rag",
    because="hands out what has cases of its own",
)
no_reads(
    "ContextEngine.open ContextEngine.close ContextEngine.settings ContextEngine.token_counter ContextEngine.budget "
    "ContextEngine.clock ContextEngine.health ContextEngine.observer",
    because="knows nothing of any session",
)
reads("ContextEngine.documents", reaches=())(
    lambda engine, party: [
        engine.documents.search(QUESTION),
        engine.documents.get(["d"]),
    ]  # the default caller has none
)


@reads("Admin.sessions", reaches=())
def records(engine: ContextEngine, party: Party) -> list[Any]:
    """Return the keys of the caller's sessions and their users, since the records contain no texts."""
    pages = calls(lambda engine, party: engine.admin, "sessions", party.caller, party.user)(engine, party)
    keys = {(one.key.caller_id, one.key.user_id) for page in pages for one in page.conversations}
    assert keys == {(party.caller, user) for user in ([party.user] if party.user else ["ann", "eve"])}
    return [keys]


no_reads(
    "Admin.erase Admin.archive Admin.clear Admin.maintain Admin.purge Admin.reembed Admin.restore Admin.work",
    because="changes what is stored, and gives back no more than numbers and paths of objects",
)
no_reads("Admin.requests", because="test_sent_requests.py shows whose requests it gives")
no_reads(
    "ContextEngine.ingestion ContextEngine.ingestion_of",
    because="hands out a caller's queue; test_ingestion.py and test_access.py show whose candidates it gives",
)
no_reads("Admin.export Admin.import_", because="are an administrator's; test_transfer.py shows whose data a file holds")
for _name in ("debug", "replay"):

    @reads(f"Admin.{_name}", reaches=EVERY, finds=("session",))
    def asked(engine: ContextEngine, party: Party, name: str = _name) -> Any:
        given = {"caller_id": party.caller, "user_id": party.user, "branch": party.branch}
        session_of(engine, party).context(QUESTION)  # `debug` shows its receipt
        return calls(lambda engine, party: engine.admin, name, party.session, **given)(engine, party)


CORPORA: dict[Level, Face] = {
    "caller": lambda engine, party: engine.documents_of(party.caller),
    "user": lambda engine, party: engine.documents_of(party.caller, user_id=party.user or "nobody"),
}


reads("DocumentIndex.search of a user and the caller", reaches=("caller", "user"))(
    calls(
        lambda engine, party: engine.documents_of(party.caller, user_id=party.user or "nobody", shared=True),
        "search",
        QUESTION,
        top_k=50,
    )
)


def _index_of(corpus: Face) -> Face:
    return lambda engine, party: corpus(engine, party).index


for _level, _corpus in CORPORA.items():
    _index = _index_of(_corpus)
    for _name, _run in {
        "DocumentIndex.search": calls(_corpus, "search", QUESTION, top_k=50),
        "DocumentIndex.retrieve": calls(_corpus, "retrieve", QUESTION, top_k=50),
        "DocumentIndex.retrieve_with_notes": calls(_corpus, "retrieve_with_notes", QUESTION, top_k=50),
        "DocumentIndex.get": calls(_corpus, "get", ["d", "h"]),
        "HybridIndex.search": calls(_index, "search", QUESTION, top_k=50),
        "HybridIndex.find": calls(_index, "find", QUESTION, top_k=50, mode="lexical"),
        "HybridIndex.find dense": calls(_index, "find", "", top_k=50, mode="dense", vector=VECTOR),
        "HybridIndex.get": calls(_index, "get", ["d", "h"]),
        "HybridIndex.scan": lambda engine, party, index=_index: list(index(engine, party).scan()),
        "RagPipeline.retrieve": calls(
            lambda engine, party, corpus=_corpus: engine.rag(corpus(engine, party)), "retrieve", QUESTION
        ),
    }.items():
        reads(f"{_name} of a {_level}", reaches=(_level,))(_run)


@reads(
    "DocumentIndex.count, HybridIndex.count, HybridIndex.term_statistics, HybridIndex.vectors",
    reaches=(),
)
def one_each(engine: ContextEngine, party: Party) -> None:
    """Check that each scope has one document, under the id that all scopes of its level share."""
    for level, corpus in CORPORA.items():
        found = corpus(engine, party)
        expected = int(level == "caller" or party.user is not None)
        index = found.index
        assert found.count() == index.count() == len(index.vectors(["d", "h"])) == expected
        count, length, frequencies = index.term_statistics(["secret"])
        assert (count, frequencies) == (expected, [expected])
        assert (0 < length < 20) == bool(expected)


no_reads(
    "DocumentIndex.add DocumentIndex.delete DocumentIndex.scopes DocumentIndex.index "
    "HybridIndex.add HybridIndex.delete HybridIndex.embed_pending HybridIndex.has_embedder "
    "HybridIndex.re_embed HybridIndex.replace",
    because="writes, or hands out what has cases of its own",
)

for _level in EVERY:
    _held: Face = partial(memories_of, level=_level)
    for _name, _run in {
        "search": calls(_held, "search", QUESTION, 50),
        "context": calls(_held, "context", QUESTION, 50),
        "get": calls(_held, "get", "m"),
        "set_status": calls(_held, "set_status", "m", "ACTIVE"),
        "unpin": calls(_held, "unpin", "m"),
        "edit": calls(_held, "edit", "m", importance=1.0),
        "history": calls(_held, "history", "m"),
        "rollback": calls(_held, "rollback", "m", 1),
        "search as of now": calls(_held, "search", QUESTION, 50, as_of=datetime(9000, 1, 1, tzinfo=UTC)),
        "list": calls(_held, "list", status=None, include_superseded=True),
    }.items():
        reads(f"Memories.{_name} of a {_level}", reaches=(_level,))(_run)


@reads("Memories.count, Memories.scope", reaches=())
def remembered(engine: ContextEngine, party: Party) -> None:
    """Check that each scope has one memory, under the same id."""
    for level in EVERY:
        memories = memories_of(engine, party, level)
        owns = level == "caller" or (party.user is not None and party.session.startswith(party.user))
        assert memories.count() == int(owns or (level == "user" and party.user is not None))
        assert memories.scope.caller_id == party.caller


no_reads(
    "Memories.add Memories.propose Memories.extract Memories.delete Memories.forget Memories.pin",
    because="writes, or gives back what it was given",
)
no_reads("ContextEngine.memories", because="hands out what has cases of its own")

# --- LangChain --------------------------------------------------------------------------------------------------------


@reads(
    "langchain_arc.ArcChatMessageHistory.messages, langchain_arc.ArcChatMessageHistory.aget_messages",
    reaches=("session",),
)
def history(engine: ContextEngine, party: Party) -> Any:
    def made(**given: Any) -> Any:
        return langchain_arc.ArcChatMessageHistory(
            party.session, engine=engine, user_id=party.user, caller_id=party.caller, **given
        )

    return [made().messages, made(include_summary=False).messages, asyncio.run(made().aget_messages())]


@reads("langchain_arc.ArcContext.invoke, langchain_arc.ArcContext.ainvoke", reaches=EVERY, finds=("session",))
def context(engine: ContextEngine, party: Party) -> Any:
    found = []
    for output in ("text", "variables"):
        runnable = langchain_arc.ArcContext(
            engine, session_id=party.session, user_id=party.user, caller_id=party.caller, output=output
        )
        found += [runnable.invoke(QUESTION), asyncio.run(runnable.ainvoke(QUESTION))]
    return found


@reads(
    "langchain_arc.ArcMemoryMiddleware.wrap_model_call, langchain_arc.ArcMemoryMiddleware.awrap_model_call",
    reaches=EVERY,
    finds=("session",),
)
def requests(engine: ContextEngine, party: Party) -> Any:
    model = ScriptedToolModel()
    middleware = langchain_arc.ArcMemoryMiddleware(engine, user_id=party.user, caller_id=party.caller)
    agent = create_agent(model, [], middleware=[middleware])
    config = {"configurable": {"thread_id": party.session}}
    agent.invoke({"messages": [HumanMessage(QUESTION)]}, config)
    asyncio.run(agent.ainvoke({"messages": [HumanMessage(QUESTION)]}, config))
    return model.requests


@reads("langchain_arc.with_arc_memory", reaches=EVERY, finds=("session",))
def chain(engine: ContextEngine, party: Party) -> Any:
    shown: list[Any] = []
    remembering = langchain_arc.with_arc_memory(
        RunnableLambda(lambda value: shown.append(value) or "ok"),
        engine,
        session_id=party.session,
        user_id=party.user,
        caller_id=party.caller,
    )
    remembering.invoke(QUESTION)
    asyncio.run(remembering.ainvoke(QUESTION))
    return shown


@reads("langchain_arc.ArcRetriever.invoke", reaches=("user",))
def retrieved(engine: ContextEngine, party: Party) -> Any:
    retriever = langchain_arc.ArcRetriever(engine=engine, caller_id=party.caller, user_id=party.user or "nobody", k=50)
    return [retriever.invoke(QUESTION), asyncio.run(retriever.ainvoke(QUESTION))]


def vector_store(engine: ContextEngine, party: Party) -> Any:
    return langchain_arc.ArcVectorStore(engine=engine, caller_id=party.caller, user_id=party.user or "nobody")


for _name, _args in {
    "similarity_search": (QUESTION, 50),
    "similarity_search_with_score": (QUESTION, 50),
    "similarity_search_by_vector": (VECTOR, 50),
    "similarity_search_with_score_by_vector": (VECTOR, 50),
    "max_marginal_relevance_search": (QUESTION, 50),
    "max_marginal_relevance_search_by_vector": (VECTOR, 50),
    "get_by_ids": (["d"],),
}.items():
    reads(f"langchain_arc.ArcVectorStore.{_name}", reaches=("user",))(calls(vector_store, _name, *_args))


@reads("langchain_arc.ArcStore.batch", reaches=("user",))
def items(engine: ContextEngine, party: Party) -> Any:
    store = langchain_arc.ArcStore(engine, caller_id=party.caller, user_id=party.user)
    asked = [GetOp(("notes",), "k"), SearchOp((), query=QUESTION, limit=50), SearchOp((), limit=50)]
    return [store.batch(asked), asyncio.run(store.abatch(asked))]


@reads("langchain_arc.memory_tools", reaches=("user",))
def found_by_tools(engine: ContextEngine, party: Party) -> Any:
    tools = langchain_arc.memory_tools(engine, user_id=party.user or "nobody", caller_id=party.caller)
    claimed = {"query": QUESTION, "limit": 20, "user_id": "ann", "session_id": "ann-1", "caller_id": "acme"}
    return [tools[0].invoke(claimed), asyncio.run(tools[0].ainvoke(claimed))]


no_reads(
    "langchain_arc.ArcChatMessageHistory.add_messages "
    "langchain_arc.ArcChatMessageHistory.clear langchain_arc.ArcChatMessageHistory.factory "
    "langchain_arc.ArcMemoryMiddleware.after_agent langchain_arc.ArcMemoryMiddleware.name "
    "langchain_arc.ArcMemoryMiddleware.state_schema langchain_arc.ArcStore.sweep_ttl "
    "langchain_arc.adelete_thread langchain_arc.delete_thread "
    "langchain_arc.ArcVectorStore.add_documents langchain_arc.ArcVectorStore.add_texts "
    "langchain_arc.ArcVectorStore.delete langchain_arc.ArcVectorStore.from_texts langchain_arc.ArcVectorStore.index "
    "langchain_arc.ArcVectorStore.embeddings langchain_arc.ArcContext.InputType langchain_arc.ArcContext.OutputType "
    "langchain_arc.ArcIngestionHandler langchain_arc.ArcIngestionMiddleware "
    "langchain_arc.ArcContext.config_specs langchain_arc.ArcRetriever.model_post_init",
    because="writes, describes, or hands out what has cases of its own",
)
no_reads(
    "langchain_arc.ArcChatModel langchain_arc.ArcDocumentCompressor langchain_arc.LangChainChatModel "
    "langchain_arc.LangChainEmbedder langchain_arc.LangChainReranker langchain_arc.LangChainRetriever "
    "langchain_arc.document_from_arc langchain_arc.document_to_arc langchain_arc.fit_messages langchain_arc.from_arc "
    "langchain_arc.open_engine langchain_arc.to_arc",
    because="works on what it is given, and stores nothing",
)

# --- LlamaIndex -------------------------------------------------------------------------------------------------------


def chat_memory(engine: ContextEngine, party: Party, *, kind: str = "ArcMemory") -> Any:
    return getattr(llamaindex_arc, kind).from_defaults(
        engine=engine,
        session_id=party.session,
        user_id=party.user,
        caller_id=party.caller,
        branch=party.branch,
    )


for _kind in ("ArcMemory", "ArcChatMemoryBuffer"):
    for _name, _args in {"get": (QUESTION,), "get_all": (), "to_dict": (), "to_string": ()}.items():
        reads(
            f"llamaindex_arc.{_kind}.{_name}",
            reaches=EVERY,
            finds=() if _name.startswith("to_") else ("session",),  # names its session but contains no messages
        )(calls(partial(chat_memory, kind=_kind), _name, *_args))

    @reads(f"llamaindex_arc.{_kind}.reduced", reaches=EVERY, finds=("session",))
    def _(engine: ContextEngine, party: Party, kind: str = _kind) -> Any:
        memory = chat_memory(engine, party, kind=kind)
        return memory.reduced(memory.get(), max_tokens=10_000)

    no_reads(
        " ".join(
            f"llamaindex_arc.{_kind}.{name}"
            for name in (
                *("class_name", "from_defaults", "from_dict", "from_string", "model_post_init", "put", "put_messages"),
                *("fork", "note"),
                *("reset", "session", "set", "validate_memory"),
            )
        ),
        because="writes, describes, or hands out what has cases of its own",
    )


def chat_store(engine: ContextEngine, party: Party) -> Any:
    return llamaindex_arc.ArcChatStore(engine, caller_id=party.caller, user_id=party.user)


@reads("llamaindex_arc.ArcChatStore.get_messages", reaches=("session",))
def kept(engine: ContextEngine, party: Party) -> Any:
    return calls(chat_store, "get_messages", party.session)(engine, party)


@reads("llamaindex_arc.ArcChatStore.get_keys", reaches=())
def names(engine: ContextEngine, party: Party) -> Any:
    found = calls(chat_store, "get_keys")(engine, party)
    assert all(sorted(keys) == ([f"{party.user}-1", f"{party.user}-2"] if party.user else []) for keys in found), found
    return found


for _name, _shows in {
    "ArcFactsBlock": "session",
    "ArcSummaryBlock": "session",
    "ArcRecallBlock": "session",
    "ArcLongTermBlock": "user",
}.items():

    @reads(f"llamaindex_arc.{_name}.aget", reaches=(_shows,))
    def block(engine: ContextEngine, party: Party, name: str = _name) -> Any:
        made = getattr(llamaindex_arc, name)(engine, caller_id=party.caller, user_id=party.user)
        return asyncio.run(made.aget([ChatMessage(role="user", content=QUESTION)], session_id=party.session))

    no_reads(
        " ".join(
            f"llamaindex_arc.{_name}.{method}"
            for method in ("aput", "atruncate", "class_name", "engine", "model_post_init", "session")
        ),
        because="writes, works on what it is given, or hands out what has cases of its own",
    )


def _retrievers(engine: ContextEngine, party: Party) -> list[Any]:
    return [
        llamaindex_arc.ArcRetriever(corpus(engine, party), similarity_top_k=50)
        for corpus in (CORPORA["user"], CORPORA["caller"])
    ]


@reads("llamaindex_arc.ArcRetriever.retrieve, llamaindex_arc.ArcFusionRetriever.retrieve", reaches=("user", "caller"))
def nodes(engine: ContextEngine, party: Party) -> Any:
    fused = llamaindex_arc.ArcFusionRetriever(_retrievers(engine, party))
    asked = QueryBundle(QUESTION)
    return [
        [found for retriever in (*_retrievers(engine, party), fused) for found in retriever.retrieve(asked)],
        asyncio.run(fused.aretrieve(asked)),
    ]


@reads("llamaindex_arc.ArcConversationTransform.run", reaches=EVERY, finds=())
def transformed(engine: ContextEngine, party: Party) -> Any:
    return llamaindex_arc.ArcConversationTransform(memory=chat_memory(engine, party)).run("Where is it?")


no_reads("llamaindex_arc.ArcIngestionEventHandler", because="writes candidates for review, and gives back nothing")
no_reads(
    "llamaindex_arc.ArcConversationTransform.arun "
    "llamaindex_arc.ArcChatStore.class_name llamaindex_arc.ArcChatStore.engine llamaindex_arc.ArcChatStore.session "
    "llamaindex_arc.ArcChatStore.model_post_init",
    because="describes, or hands out what has cases of its own",
)
no_reads(
    " ".join(
        f"llamaindex_arc.ArcChatStore.{name}"
        for name in (
            "add_message",
            "set_messages",
            "delete_message",
            "delete_messages",
            "delete_last_message",
        )
    ),
    because="writes; what a deletion gives back is what `get_messages` gives",
)
no_reads(
    "llamaindex_arc.ArcHyDETransform llamaindex_arc.ArcLLM llamaindex_arc.ArcNodePostprocessor "
    "llamaindex_arc.ArcTokenBudgetPostprocessor llamaindex_arc.LlamaIndexChatModel llamaindex_arc.LlamaIndexEmbedder "
    "llamaindex_arc.LlamaIndexReranker llamaindex_arc.LlamaIndexRetriever llamaindex_arc.from_arc "
    "llamaindex_arc.open_engine llamaindex_arc.to_arc llamaindex_arc.node_to_arc llamaindex_arc.node_from_arc "
    "llamaindex_arc.with_overflow_recovery",
    because="works on what it is given, and stores nothing",
)
