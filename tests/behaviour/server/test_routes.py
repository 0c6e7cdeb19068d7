"""The routes do what the engine does: results, removals and errors."""

import hmac
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from sqlalchemy import create_engine, text
from starlette.testclient import TestClient

from arc_common import ArcSettings, ContextEngine, Document, TokenBudget, with_receipt
from arc_common.server import Role, Token, create_app
from arc_common.server.routes.table import ENDPOINTS
from tests.support.databases import sqlite_url

TOKENS = [Token(f"{role}-of-the-shop-1", "shop", None, role, f"the {role}") for role in Role]
SETTINGS = ArcSettings(
    rag={"ingestion": {"enabled": True, "dynamic_enabled": True}},
    context={"store_receipts": "all"},
    memory={"enabled": True},
)
SESSION = "/api/sessions/s"
REVIEW = "/api/rag-ingestion"
ANN = {"userId": "ann"}


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[ContextEngine, TestClient]]:
    """Open an engine, and a client with a reviewer's token, which permits everything."""
    with (
        ContextEngine.open("sqlite://", settings=SETTINGS) as engine,
        TestClient(create_app(engine, TOKENS), headers={"Authorization": f"Bearer {TOKENS[-1].secret}"}) as client,
    ):
        yield engine, client


@pytest.fixture
def engine(served: tuple[ContextEngine, TestClient]) -> ContextEngine:
    """Return the engine, without anything of earlier tests."""
    engine = served[0]
    assert engine.flush(60)
    for caller_id in ("shop", "blog"):
        engine.admin.erase(caller_id=caller_id, user_id=None)
    return engine


@pytest.fixture
def client(engine: ContextEngine, served: tuple[ContextEngine, TestClient]) -> TestClient:
    """Return the client of the engine, which is empty by now."""
    return served[1]


def told(client: TestClient, *texts: str, session: str = "s", **query: str) -> None:
    turns = [{"role": "user" if n % 2 == 0 else "assistant", "content": text} for n, text in enumerate(texts)]
    client.post(f"/api/sessions/{session}/messages", json={"messages": turns}, params=query).raise_for_status()


def test_messages_with_tools_are_stored_and_paged(engine: ContextEngine, client: TestClient) -> None:
    """They equal the engine's; a repeated id changes nothing."""
    call = {"id": "c1", "name": "look_up", "arguments": {"order": 4711}}
    messages = [
        {"role": "user", "content": "Where is my order?", "id": "m1", "name": "Ann"},
        {"role": "assistant", "content": None, "id": "m2", "toolCalls": [call]},
        {"role": "tool", "content": "On its way.", "id": "m3", "toolCallId": "c1", "name": "look_up"},
        {"role": "assistant", "content": "On its way.", "id": "m4", "metadata": {"model": "m"}},
    ]
    for _ in range(2):
        stored = client.post(f"{SESSION}/messages", json={"messages": messages}).json()["messages"]
        assert [one["id"] for one in stored] == ["m1", "m2", "m3", "m4"]
    assert (stored[0]["name"], stored[1]["toolCalls"], stored[2]["toolCallId"]) == ("Ann", [call], "c1")
    kept = engine.session("s", caller_id="shop").messages()
    assert [one.tool_call_id for one in kept] == [None, None, "c1", None]
    assert kept[3].metadata["model"] == "m"

    def page(**query: Any) -> list[str]:
        return [one["id"] for one in client.get(f"{SESSION}/messages", params=query).json()["messages"]]

    assert [page(), page(limit=1), page(limit=2, before="m4"), page(before="m1")] == [
        ["m1", "m2", "m3", "m4"], ["m4"], ["m2", "m3"], [],
    ]  # fmt: skip


def test_a_context_is_the_engines_window(engine: ContextEngine, client: TestClient) -> None:
    """Query, prompt, documents, tools and budget give the same messages."""
    told(client, "I live in Porto.", "Fine.")
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    asked = {
        "query": "Do you ship to me?",
        "systemPrompt": "Be kind.",
        "documents": [{"text": "We ship to Portugal.", "source": "terms"}],
        "tools": [tool],
        "responseFormat": {"type": "object"},
        "contextWindow": 2_000,
        "outputReserve": 100,
        "memoryTags": ["home"],
    }
    engine.memories(caller_id="shop", session_id="s").add("We ship for free.", tags=["work"])
    built = client.post(f"{SESSION}/context", json=asked).json()
    window = engine.session("s", caller_id="shop").context(
        "Do you ship to me?",
        system_prompt="Be kind.",
        documents=[Document("We ship to Portugal.", source="terms")],
        tools=[tool],
        response_format={"type": "object"},
        budget=TokenBudget(2_000, 100),
        memory_tags=["home"],
    )
    assert [(one["role"], one["content"]) for one in built["messages"]] == [
        (one.role.value, one.text) for one in window.messages
    ]
    assert (built["totalTokens"], built["receipt"]) == (window.total_tokens, window.receipt.to_dict())
    sections = {section.name: section.tokens for section in window.sections}
    assert all(sections[name] for name in ("system", "tools", "documents", "history"))
    assert not sections["recalled"]


def test_pins_facts_and_recall(engine: ContextEngine, client: TestClient) -> None:
    """They belong to one session; recall includes the user's others on request."""
    told(client, "My order number is HN-48213.", "Noted.", *["What else is new?", "Nothing."] * 12, **ANN)
    told(client, "My invoice number is 77.", "Noted.", session="t", **ANN)
    pin = client.post(f"{SESSION}/pins", json={"text": "Never call me."}, params=ANN).json()
    assert [one["text"] for one in client.get(f"{SESSION}/pins", params=ANN).json()] == ["Never call me."]
    assert client.delete(f"{SESSION}/pins/{pin['id']}", params=ANN).status_code == 204
    assert client.get(f"{SESSION}/pins", params=ANN).json() == []
    engine.session("s", caller_id="shop", user_id="ann").summarize()
    (fact,) = client.get(f"{SESSION}/facts", params=ANN).json()
    assert "HN-48213" in fact["value"]
    (first, *_) = client.get(f"{SESSION}/messages", params=ANN).json()["messages"]
    assert (fact["sources"], fact["importance"] > 0) == ([first["id"]], True)
    assert engine.flush(60)
    for scope, expected in (("session", {"HN-48213"}), ("user", {"HN-48213", "77"})):
        asked = {"query": "What is my order or invoice number?", "scope": scope, "topK": 5}
        found = [one["message"]["content"] for one in client.post(f"{SESSION}/recall", json=asked, params=ANN).json()]
        assert {name for name in ("HN-48213", "77") if any(name in text for text in found)} == expected
    asked = {"query": "What is my order or invoice number?", "scope": "user", "topK": 1}
    assert len(client.post(f"{SESSION}/recall", json=asked, params=ANN).json()) == 1


def test_branches(client: TestClient) -> None:
    """A fork, switch, rewind and deletion work; `branch` selects a request's branch."""
    turns = [{"role": "user", "content": f"Turn {n}", "id": f"m{n}"} for n in range(3)]
    client.post(f"{SESSION}/messages", json={"messages": turns}).raise_for_status()

    def shown(**query: Any) -> list[str]:
        return [one["id"] for one in client.get(f"{SESSION}/messages", params=query).json()["messages"]]

    idea = client.post(f"{SESSION}/branches", json={"at": "m0", "name": "idea"}).json()
    assert (idea["name"], idea["parent"], idea["forkedAt"], idea["isCurrent"]) == ("idea", 0, "m0", False)
    more = {"messages": [{"role": "user", "content": "Another", "id": "x"}]}
    client.post(f"{SESSION}/messages", json=more, params={"branch": "idea"}).raise_for_status()
    assert [shown(), shown(branch="idea"), shown(branch=idea["id"])] == [["m0", "m1", "m2"], ["m0", "x"], ["m0", "x"]]
    branches = client.put(f"{SESSION}/branches/idea/current").json()
    assert [one["name"] for one in branches if one["isCurrent"]] == ["idea"]
    assert shown() == ["m0", "x"]
    client.put(f"{SESSION}/branches/0/current").raise_for_status()
    assert len(client.post(f"{SESSION}/rewind", json={"to": "m1"}).json()) == 3
    assert shown() == ["m0", "m1"]
    assert client.delete(f"{SESSION}/branches/idea").status_code == 204
    assert client.get(f"{SESSION}/messages", params={"branch": "idea"}).status_code == 404


def test_documents(client: TestClient) -> None:
    """They are stored whole or in chunks, found by words and filters, and deleted with their chunks."""
    documents = [
        {"text": "Refunds take a week.", "id": "r", "source": "terms", "metadata": {"lang": "en"}},
        {"text": "Refunds are for members. " * 200, "id": "folder/long", "metadata": {"lang": "de"}},
    ]
    ids = client.post("/api/documents", json={"documents": documents, "chunk": True}).json()["ids"]
    assert (ids[0], len(ids) > 2) == ("r#0", True)
    asked = {"query": "How long do refunds take?", "filters": {"lang": "en"}}
    (found,) = client.post("/api/documents/search", json=asked).json()
    assert (found["text"], found["source"], found["metadata"]["lang"]) == ("Refunds take a week.", "terms", "en")
    assert found["score"] > 0
    assert len(client.post("/api/documents/search", json={"query": "refunds", "topK": 2}).json()) == 2
    assert client.get("/api/documents/folder/long%231").json()["metadata"]["document_id"] == "folder/long"
    assert client.delete("/api/documents/folder/long").status_code == 204
    assert client.delete("/api/documents/folder/long").status_code == 404
    assert len(client.post("/api/documents/search", json={"query": "refunds"}).json()) == 1
    client.post("/api/documents", json={"documents": documents}, params=ANN).raise_for_status()
    assert client.get("/api/documents/folder/long", params=ANN).json()["text"] == documents[1]["text"]


def test_memories_of_a_session(engine: ContextEngine, client: TestClient) -> None:
    """Each field is checked; `lastAccessedAt` is `createdAt` until the memory is first used."""
    told(client, "Hello.", "Hello.", **ANN)
    given = {"content": "Ann has a cat named Tom.", "type": "preference", "importance": 0.9}
    added = client.post(f"{SESSION}/memories", json=given, params=ANN)
    assert added.status_code == 201
    memory = added.json()
    assert memory.keys() == {
        "id", "sessionId", "memoryContent", "memoryType", "importance", "createdAt", "lastAccessedAt",
    }  # fmt: skip
    assert (memory["sessionId"], memory["memoryContent"], memory["memoryType"], memory["importance"]) == (
        "s", "Ann has a cat named Tom.", "preference", 0.9,
    )  # fmt: skip
    assert memory["lastAccessedAt"] == memory["createdAt"]
    assert client.get(f"{SESSION}/memories", params=ANN).json() == [memory]
    engine.memories(caller_id="shop", user_id="ann").search("Tom the cat")
    assert engine.flush(60)
    used = client.get(f"{SESSION}/memories/{memory['id']}", params=ANN).json()
    assert used["lastAccessedAt"] > used["createdAt"] == memory["createdAt"]


def test_a_users_session_reads_and_adds_at_its_users_scope(client: TestClient) -> None:
    """The user's other sessions have the memory, other users' don't; a session without a user has its own."""
    for session, query in (("s", ANN), ("t", ANN), ("b", {"userId": "ben"}), ("o", {}), ("p", {})):
        told(client, "Hello.", "Hello.", session=session, **query)
    anns = client.post(f"{SESSION}/memories", json={"content": "Ann has a cat."}, params=ANN).json()["id"]
    own = client.post("/api/sessions/o/memories", json={"content": "The order is late."}).json()["id"]

    def seen(session: str, **query: str) -> list[str]:
        return [one["id"] for one in client.get(f"/api/sessions/{session}/memories", params=query).json()]

    assert [seen("s", **ANN), seen("t", **ANN), seen("b", userId="ben")] == [[anns], [anns], []]
    assert [seen("o"), seen("p")] == [[own], []]
    assert client.get(f"/api/sessions/b/memories/{anns}", params={"userId": "ben"}).status_code == 404
    assert client.delete(f"/api/sessions/t/memories/{anns}", params=ANN).status_code == 204
    assert seen("s", **ANN) == []


def test_unknown_parameters_are_refused(engine: ContextEngine, client: TestClient) -> None:
    """A misspelt user parameter must not act for nobody."""
    refused = client.post(f"{SESSION}/messages", json={"messages": []}, params={"user_id": "ann"})
    assert refused.status_code == 422
    assert "'user_id'" in refused.json()["detail"]
    assert "userId" in refused.json()["detail"]
    assert not engine.session("s", caller_id="shop").exists()
    assert client.get("/healthz", params={"now": "1"}).status_code == 200  # load balancers add parameters


def test_the_figures_of_a_conversation(client: TestClient) -> None:
    """They include the receipt of its last request by any client; there is none before the first."""
    told(client, *["How are you?", "Fine."] * 3, **ANN)
    debug = client.get("/conversations/s/debug", params=ANN).json()
    assert debug.keys() == {
        "conversationId", "totalMessages", "messagesInContext", "totalTokens", "compressionNeeded", "lastReceipt",
    }  # fmt: skip
    assert (debug["conversationId"], debug["totalMessages"], debug["messagesInContext"]) == ("s", 6, 0)
    assert (debug["compressionNeeded"], debug["lastReceipt"]) == (False, None)
    asked = {"query": "And now?", "contextWindow": 45, "outputReserve": 0}
    built = client.post(f"{SESSION}/context", json=asked, params=ANN).json()
    debug = client.get("/conversations/s/debug", params=ANN).json()
    assert debug["lastReceipt"] == built["receipt"]
    assert 0 < debug["messagesInContext"] == len(built["messages"]) < 7
    assert debug["totalTokens"] > 20


def test_compression_is_needed_beyond_the_threshold() -> None:
    settings = ArcSettings(conversation={"compression_threshold": 50})
    with ContextEngine.open("sqlite://", settings=settings) as engine:
        client = TestClient(create_app(engine, TOKENS), headers={"Authorization": f"Bearer {TOKENS[-1].secret}"})
        for needed in (False, True):
            told(client, "How are you?", "Fine, thank you, and how are you on this rainy day, my friend?")
            told(client, *["So-so. " * 10] * 2 * needed or ["Hi."])
            assert client.get("/conversations/s/debug").json()["compressionNeeded"] is needed


def test_sessions_by_user_status_and_page(engine: ContextEngine, client: TestClient) -> None:
    """Each appears once, newest first, over all pages."""
    for number in range(5):
        told(client, "Hello.", "Hello.", session=f"s{number}", userId="ben" if number == 2 else "ann")
    seen, cursor = [], None
    while True:
        page = client.get("/api/sessions", params={**ANN, "limit": 3, **({"cursor": cursor} if cursor else {})}).json()
        seen += [one["sessionId"] for one in page["sessions"]]
        if (cursor := page["nextCursor"]) is None:
            break
    assert seen == ["s4", "s3", "s1", "s0"]
    engine.session("s1", caller_id="shop", user_id="ann").delete(soft=True)
    assert [
        one["sessionId"] for one in client.get("/api/sessions", params={"status": "deleted"}).json()["sessions"]
    ] == ["s1"]
    assert len(client.get("/api/sessions").json()["sessions"]) == 4


def test_a_review_by_two(client: TestClient) -> None:
    """One decides, the other gets 409; the decision has the token's holder and the comment."""
    answered = {"query": "How long can I return it?", "response": "You can return it within 30 days."}
    names = []
    for number, channel in enumerate(("web", "phone", "web", "web")):
        given = {**answered, "runId": f"r{number}", "channel": channel}
        names.append(client.post(f"{REVIEW}/candidates", json=given).json()["candidate"]["id"])
    page = client.get(f"{REVIEW}/candidates", params={"channel": "web", "limit": 2}).json()
    rest = client.get(
        f"{REVIEW}/candidates", params={"channel": "web", "limit": 2, "cursor": page["nextCursor"]}
    ).json()
    assert [one["id"] for one in page["candidates"] + rest["candidates"]] == [names[0], names[2], names[3]]
    decided = client.post(f"{REVIEW}/candidates/{names[0]}/approve", json={"comment": "checked"}).json()
    assert (decided["status"], decided["reviewer"], decided["comment"]) == ("INGESTED", "the reviewer", "checked")
    assert client.get(f"/api/documents/{decided['documentId']}").status_code == 200
    for way in ("approve", "reject"):
        again = client.post(f"{REVIEW}/candidates/{names[0]}/{way}", json={})
        assert (again.status_code, again.json()["type"]) == (409, "ReviewConflictError")
    assert client.post(f"{REVIEW}/candidates/{names[1]}/reject", json={}).json()["status"] == "REJECTED"


def test_the_policy_and_back_to_the_settings(client: TestClient) -> None:
    """PUT changes the given fields for the next capture; DELETE returns to the settings."""
    policy = client.get(f"{REVIEW}/policy").json()
    changed = client.put(f"{REVIEW}/policy", json={"minQueryChars": 1_000}).json()
    assert changed == {**policy, "minQueryChars": 1_000} == client.get(f"{REVIEW}/policy").json()
    answered = {"query": "How long can I return it?", "response": "You can return it within 30 days.", "runId": "r"}
    assert client.post(f"{REVIEW}/candidates", json=answered).json() == {"candidate": None}
    assert client.delete(f"{REVIEW}/policy").json() == policy == client.get(f"{REVIEW}/policy").json()
    assert client.post(f"{REVIEW}/candidates", json=answered).json()["candidate"]["status"] == "PENDING"
    wrong = client.put(f"{REVIEW}/policy", json={"blockedPatterns": ["("], "minQueryChars": 3})
    assert (wrong.status_code, client.get(f"{REVIEW}/policy").json()) == (422, policy)


@pytest.mark.parametrize("path", ["/api/sessions", f"{REVIEW}/candidates"])
def test_a_cursor_that_was_tampered_with(client: TestClient, path: str) -> None:
    """It is rejected without a server error."""
    for cursor in ("x", "MTIz", "' OR 1=1 --", "ÿ", "a" * 2_000, "a" * 2_001):
        answer = client.get(path, params={"cursor": cursor})
        assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json"), cursor


def test_a_cursor_of_anothers_page_shows_ones_own(engine: ContextEngine, client: TestClient) -> None:
    """It is a point in time and reaches no other caller's sessions."""
    for number in range(3):
        engine.session(f"b{number}", caller_id="blog").save_turn("Hello.", "Hello.")
    told(client, "Hello.", "Hello.")
    theirs = engine.admin.sessions("blog", limit=1).next_cursor
    shown = client.get("/api/sessions", params={"cursor": theirs}).json()["sessions"]
    assert all(one["sessionId"] == "s" for one in shown)


def test_every_refusal_is_a_problem(client: TestClient) -> None:
    """It has its status and a reason in words."""
    writer = {"Authorization": f"Bearer {TOKENS[1].secret}"}
    for status, method, path, more in (
        (422, "POST", f"{SESSION}/messages", {"content": b"\xff"}),
        (401, "GET", "/api/sessions", {"headers": {"Authorization": "Basic abc"}}),
        (403, "GET", f"{REVIEW}/policy", {"headers": writer}),
        (404, "GET", "/api/unknown", {}),
        (404, "GET", f"{SESSION}/messages", {}),
        (405, "PATCH", "/api/sessions", {}),
        (413, "POST", f"{SESSION}/messages", {"content": b" " * (8 * 2**20 + 1)}),
        (422, "POST", f"{SESSION}/messages", {"json": {"messages": "none", "more": 1}}),
        (422, "GET", "/api/sessions", {"params": {"limit": 0}}),
    ):
        answer = client.request(method, path, **more)  # type: ignore[arg-type]
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        problem = answer.json()
        assert problem.keys() == {"type", "title", "status", "detail", "errors"}
        assert (problem["status"], bool(problem["detail"])) == (status, True)
    wrong = client.post(f"{SESSION}/messages", json={"messages": "none", "more": 1}).json()
    assert {error.partition(":")[0] for error in wrong["errors"]} == {"body.messages", "body.more"}


def test_an_unexpected_error_is_a_problem(engine: ContextEngine) -> None:
    """The response reveals nothing of the error."""
    app = create_app(engine, TOKENS)

    @app.get("/broken")
    def broken() -> None:
        raise ValueError("S3CRET")

    answer = TestClient(app, raise_server_exceptions=False).get("/broken")
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
    assert answer.json()["detail"] == "an unexpected error"


def test_health_while_the_store_is_down(tmp_path: Any) -> None:
    """The process is alive but not ready, and clients get no details."""
    url = sqlite_url(tmp_path)
    with ContextEngine.open(url) as engine:
        client = TestClient(create_app(engine, TOKENS))
        assert client.get("/readyz").json() == {"status": "ok"}
        broken = create_engine(url)
        with broken.begin() as connection:
            connection.execute(text("DROP TABLE arc_conversations"))
        broken.dispose()
        assert client.get("/healthz").json() == {"status": "ok"}
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json()["type"]) == (503, "NotReady")
        asked = client.get(f"{SESSION}/messages", headers={"Authorization": f"Bearer {TOKENS[0].secret}"})
        assert (asked.status_code, asked.json()["detail"]) == (503, "the store can't be reached")
        for answer in (ready, asked):
            assert "arc_conversations" not in answer.text
            assert str(tmp_path) not in answer.text


def test_every_token_is_compared_in_constant_time(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Digests of one length are compared by `hmac.compare_digest`, equally many for any token."""
    compared: list[tuple[Any, Any]] = []
    compare: Callable[[Any, Any], bool] = hmac.compare_digest

    def counted(known: Any, given: Any) -> bool:
        compared.append((known, given))
        return compare(known, given)

    monkeypatch.setattr(hmac, "compare_digest", counted)
    for secret in (TOKENS[0].secret, TOKENS[-1].secret, "of-nobody-at-all", "", "a" * 5_000):
        compared.clear()
        client.get("/api/sessions", headers={"Authorization": f"Bearer {secret}"})
        assert len(compared) == len(TOKENS)
        assert {len(value) for pair in compared for value in pair} == {32}


def test_no_route_needs_less_than_it_should() -> None:
    """Writing needs a writer, deciding a reviewer, and only health needs no token."""
    asking = {"build_context", "recall", "search_documents"}  # these read, but their bodies are too long for a URL
    for endpoint in ENDPOINTS:
        name, path = endpoint.function.__name__, endpoint.path
        if path in ("/healthz", "/readyz"):
            expected = None
        elif path.startswith(REVIEW) and name != "capture_answer":
            expected = Role.REVIEWER
        else:
            expected = Role.READER if endpoint.method == "GET" or name in asking else Role.WRITER
        assert endpoint.role == expected, name


def test_unknown_sessions_and_memories_are_not_found(engine: ContextEngine, client: TestClient) -> None:
    """This covers each memory route, and nothing is written."""
    told(client, "Hello.", "Hello.", **ANN)
    one = client.post(f"{SESSION}/memories", json={"content": "Ann has a cat."}, params=ANN).json()["id"]
    for session, memory in (("unknown", one), ("s", "unknown")):
        for method in ("GET", "DELETE"):
            path = f"/api/sessions/{session}/memories/{memory}"
            assert client.request(method, path, params=ANN).status_code == 404
    assert client.get("/api/sessions/unknown/memories", params=ANN).status_code == 404
    given = {"content": "Ann has a dog."}
    assert client.post("/api/sessions/unknown/memories", json=given, params=ANN).status_code == 404
    assert [memory.id for memory in engine.memories(caller_id="shop", user_id="ann").list()] == [one]


def test_a_deleted_session_takes_everything_along(engine: ContextEngine, client: TestClient) -> None:
    """Messages, pins, branches, facts, stored requests, candidates and its own memories are deleted."""
    told(client, "My code is S3CRET-1.", "Noted.")
    told(client, "Hello.", "Hello.", session="kept")
    client.post(f"{SESSION}/pins", json={"text": "Never say S3CRET-2."}).raise_for_status()
    client.post(f"{SESSION}/branches", json={"name": "S3CRET-3"}).raise_for_status()
    client.post(f"{SESSION}/memories", json={"content": "The code is S3CRET-4."}).raise_for_status()
    client.post(f"{SESSION}/context", json={"query": "What is S3CRET-5?"}).raise_for_status()
    answered = {"query": "What is S3CRET-6?", "response": "S3CRET-7, as you said yourself.", "sessionId": "s"}
    for run in ("r1", "r2"):
        captured = client.post(f"{REVIEW}/candidates", json={**answered, "runId": run}).json()["candidate"]
    client.post(f"{REVIEW}/candidates/{captured['id']}/approve", json={}).raise_for_status()
    assert engine.flush(60)
    assert client.delete(SESSION).status_code == 204
    assert client.delete(SESSION).status_code == 404
    for part in ("messages", "pins", "branches", "facts", "requests", "memories"):
        assert client.get(f"{SESSION}/{part}").status_code == 404, part
    assert client.get("/conversations/s/debug").status_code == 404
    assert client.post("/api/documents/search", json={"query": "S3CRET-7"}).json() == []
    for status in ("PENDING", "INGESTED"):
        assert client.get(f"{REVIEW}/candidates", params={"status": status}).json()["candidates"] == []
    assert len(client.get("/api/sessions").json()["sessions"]) == 1


def test_a_streamed_answer_ends_with_its_receipt() -> None:
    """With `with_receipt` in a `StreamingResponse`, clients get events and then comments, which they ignore."""
    app = FastAPI()
    with ContextEngine.open("sqlite://", settings=ArcSettings(context={"debug": True})) as engine:
        session = engine.session("s")

        @app.get("/chat")
        async def chat() -> StreamingResponse:
            async def events() -> AsyncIterator[str]:
                await session.acontext("Hello?")
                yield "data: Hel\n\n"
                yield "data: lo.\n\n"

            return StreamingResponse(with_receipt(session, events()), media_type="text/event-stream")

        lines = TestClient(app).get("/chat").text.splitlines()
        assert [line for line in lines if line and not line.startswith(":")] == ["data: Hel", "data: lo."]
        (told,) = (line for line in lines if line.startswith(": MEMORY_DEBUG "))
        receipt = session.receipt()
        assert receipt is not None
        assert json.loads(told.removeprefix(": MEMORY_DEBUG ")) == receipt.to_dict()
