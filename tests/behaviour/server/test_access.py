"""Each token reaches only its own data, with the role that a route requires."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from arc_common import ArcSettings, ConfigurationError, ContextEngine, Document, InvalidInputError, Message
from arc_common.server import Role, Token, build_router, create_app, load_tokens
from arc_common.server.routes.table import ENDPOINTS, Endpoint

TOKENS = {
    "reader": Token("reader-of-the-shop", "shop", None, Role.READER),
    "writer": Token("writer-of-the-shop", "shop", None, Role.WRITER),
    "reviewer": Token("reviewer-of-the-shop", "shop", None, Role.REVIEWER, "lee"),
    "other user": Token("reviewer-for-ben-alone", "shop", "ben", Role.REVIEWER),
    "other caller": Token("reviewer-of-the-blog", "blog", None, Role.REVIEWER),
}
WHO = ["no token", "wrong token", "other caller", "other user", "reader", "writer", "reviewer"]
SETTINGS = ArcSettings(rag={"ingestion": {"enabled": True, "dynamic_enabled": True}}, context={"store_receipts": "all"})


@dataclass(frozen=True)
class Expected:
    """A request that succeeds for ann, and its statuses for another user and another caller."""

    body: Any = None
    other_user: int = 404
    other_caller: int = 404


CAPTURED = {"query": "How long can I return it?", "response": "You can return it within 30 days."}
MESSAGES = {"messages": [{"role": "user", "content": "Hello"}]}
EXPECTED = {
    "list_sessions": Expected(other_user=200, other_caller=200),
    "delete_session": Expected(),
    "list_messages": Expected(),
    "append_messages": Expected(MESSAGES, other_caller=201),  # a session of the other caller with the same id
    "build_context": Expected({"query": "Hello?"}, other_caller=200),
    "recall": Expected({"query": "tea"}),
    "list_facts": Expected(),
    "list_requests": Expected(),
    "list_pins": Expected(),
    "add_pin": Expected({"text": "Never call."}),
    "remove_pin": Expected(),
    "list_branches": Expected(),
    "fork": Expected({"name": "another"}),
    "rewind": Expected({"to": "m1"}),
    "switch_branch": Expected(),
    "delete_branch": Expected(),
    "list_memories": Expected(),
    "add_memory": Expected({"content": "Ann likes tea."}),
    "get_memory": Expected(),
    "delete_memory": Expected(),
    "debug_conversation": Expected(),
    "add_documents": Expected({"documents": [{"text": "Refunds take a week."}]}, other_user=201, other_caller=201),
    "search_documents": Expected({"query": "refunds"}, other_user=200, other_caller=200),
    "get_document": Expected(),
    "delete_document": Expected(),
    "get_policy": Expected(other_user=200, other_caller=200),
    "set_policy": Expected({"minQueryChars": 5}, other_user=403, other_caller=200),
    "reset_policy": Expected(other_user=403, other_caller=200),
    "list_candidates": Expected(other_user=200, other_caller=200),
    "capture_answer": Expected({**CAPTURED, "runId": "new"}, other_user=201, other_caller=201),
    "approve_candidate": Expected({}),
    "reject_candidate": Expected({}),
    "healthz": Expected(),
    "readyz": Expected(),
}
"""Expectations for each route of the table; a route without an entry fails the test."""


@dataclass(frozen=True)
class World:
    client: TestClient
    names: dict[str, str]

    def ask(self, endpoint: Endpoint, who: str, body: Any = None, **query: str) -> Any:
        headers = {} if who == "no token" else {"Authorization": "Bearer of-nobody-at-all"}
        if who in TOKENS:
            headers = {"Authorization": f"Bearer {TOKENS[who].secret}"}
        path = endpoint.path.replace(":path", "").format(**self.names | _id_of(endpoint, self.names))
        return self.client.request(endpoint.method, path, headers=headers, json=body, params=query)


def _id_of(endpoint: Endpoint, names: dict[str, str]) -> dict[str, str]:
    return {"id": names["sessionId" if endpoint.path.startswith("/conversations") else "candidateId"]}


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[ContextEngine, TestClient]]:
    with (
        ContextEngine.open("sqlite://", settings=SETTINGS) as engine,
        TestClient(create_app(engine, list(TOKENS.values()))) as client,
    ):
        yield engine, client


@pytest.fixture
def world(served: tuple[ContextEngine, TestClient]) -> World:
    """Return the shop's session of ann with everything that the routes name."""
    return new_world(*served)


def new_world(engine: ContextEngine, client: TestClient) -> World:
    for caller in ("shop", "blog"):
        engine.admin.erase(caller_id=caller, user_id=None)
    session = engine.session("s", caller_id="shop", user_id="ann")
    session.append([Message("user", "I like tea.", id="m1"), Message("assistant", "Fine.")])
    session.fork(name="idea")
    engine.documents_of("shop", user_id="ann").add(Document("Refunds take a week.", id="d"))
    captured = engine.ingestion_of("shop").capture(**CAPTURED, run_id="r", session_id="s", user_id="ann")
    assert captured
    names = {
        "sessionId": "s",
        "branchName": "idea",
        "documentId": "d",
        "pinId": session.pin("Never call.").id,
        "memoryId": engine.memories(caller_id="shop", user_id="ann").add("Ann has a cat.").id,
        "candidateId": captured.id,
    }
    return World(client, names)


def expected_status(endpoint: Endpoint, who: str) -> int:
    expected = EXPECTED[endpoint.function.__name__]
    if endpoint.role is None:
        return endpoint.status
    if who in ("no token", "wrong token"):
        return 401
    if who in ("other user", "other caller"):
        return expected.other_user if who == "other user" else expected.other_caller
    return endpoint.status if Role(who).includes(endpoint.role) else 403


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.function.__name__)
def test_every_token_at_every_route(served: tuple[ContextEngine, TestClient], endpoint: Endpoint) -> None:
    """It is refused as a problem, or its request succeeds and shows nothing of another user or caller."""
    body, world = EXPECTED[endpoint.function.__name__].body, new_world(*served)
    takes_user = "/policy" not in endpoint.path and "/candidates/{id}/" not in endpoint.path
    for who in WHO:
        acts_for = who in ("reader", "writer") or (who == "reviewer" and takes_user)
        answer = world.ask(endpoint, who, body, **({"userId": "ann"} if acts_for else {}))
        assert answer.status_code == expected_status(endpoint, who), (who, answer.text)
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["status"] == answer.status_code
            assert (answer.status_code == 401) == ("www-authenticate" in answer.headers)
        elif who.startswith("other"):
            assert not any(text in answer.text for text in ("tea", "cat", "Refunds take", "Never call", '"ann"')), who
        if answer.status_code < 400 and endpoint.method != "GET":
            world = new_world(*served)
    if endpoint.role is not None and takes_user:
        assert world.ask(endpoint, "other user", body, userId="ann").status_code == 403


def test_a_token_of_one_user_needs_no_name(world: World) -> None:
    """It acts for its user and can't name another."""
    ben = {"Authorization": f"Bearer {TOKENS['other user'].secret}"}
    body = {"messages": [{"role": "user", "content": "Hello of ben's"}]}
    assert world.client.post("/api/sessions/b/messages", json=body, headers=ben).status_code == 201
    (session,) = world.client.get("/api/sessions", headers=ben).json()["sessions"]
    assert (session["sessionId"], session["userId"]) == ("b", "ben")


def test_a_server_without_tokens_serves_this_machine_only() -> None:
    """It starts only on request, and rejects other machines and pages of other origins."""
    with ContextEngine.open("sqlite://") as engine:
        with pytest.raises(ConfigurationError, match="no token is configured"):
            create_app(engine, [])
        with pytest.raises(ConfigurationError, match="tokens are configured"):
            create_app(engine, list(TOKENS.values()), anonymous=True)
        with pytest.raises(ConfigurationError, match="twice"):
            create_app(engine, [TOKENS["reader"], TOKENS["reader"]])
        app = create_app(engine, [], anonymous=True)
        here = TestClient(app, base_url="http://127.0.0.1:8000", client=("127.0.0.1", 5000))
        assert here.get("/api/sessions").status_code == 200
        assert here.get("/api/sessions", headers={"Origin": "http://localhost:3000"}).status_code == 200
        assert here.get("/api/sessions", headers={"Origin": "https://evil.example"}).status_code == 403
        assert here.get("/api/sessions", headers={"Host": "evil.example"}).status_code == 403
        away = TestClient(app, base_url="http://127.0.0.1:8000", client=("10.0.0.1", 5000))
        assert away.get("/api/sessions").status_code == 403


def test_tokens_come_from_a_file(tmp_path: Any) -> None:
    """An invalid one is rejected without being shown."""
    path = tmp_path / "tokens.json"
    path.write_text('[{"token": "a-secret-of-the-shop", "caller": "shop", "user": "ann", "role": "writer"}]')
    (token,) = load_tokens(path)
    assert (token.caller_id, token.user_id, token.role) == ("shop", "ann", Role.WRITER)
    assert "a-secret" not in repr(token)
    for text in ("", "{}", '[{"token": "short"}]', '[{"token": "a-secret-of-the-shop", "role": "king"}]', '[{"x": 1}]'):
        path.write_text(text)
        with pytest.raises(ConfigurationError) as error:
            load_tokens(path)
        assert "a-secret" not in str(error.value)
    with pytest.raises(ConfigurationError, match=r"missing\.json"):
        load_tokens(tmp_path / "missing.json")
    with pytest.raises(InvalidInputError, match="token"):
        Token("short")


def test_a_router_in_another_application() -> None:
    """It brings its own access, limits and errors, and does not affect the application's routes."""
    with ContextEngine.open("sqlite://", settings=ArcSettings(server={"max_body_bytes": 1_000})) as engine:
        app = FastAPI()
        app.include_router(build_router(engine, list(TOKENS.values())), prefix="/arc")

        @app.get("/own")
        def own() -> str:
            return "own"

        client = TestClient(app)
        assert client.get("/own").json() == "own"
        assert client.get("/arc/api/sessions").status_code == 401
        headers = {"Authorization": f"Bearer {TOKENS['writer'].secret}"}
        assert client.get("/arc/api/sessions", headers=headers).json() == {"sessions": [], "nextCursor": None}
        long = {"documents": [{"text": "a" * 1_000}]}
        for content in (None, iter([b"a" * 600, b"a" * 600])):  # with and without its length
            given: Any = {"json": long} if content is None else {"content": content}
            answer = client.post("/arc/api/documents", headers=headers, **given)
            assert (answer.status_code, answer.json()["title"]) == (413, "Request Entity Too Large")
        assert "/arc/api/sessions" in client.get("/openapi.json").json()["paths"]
