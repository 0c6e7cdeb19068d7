"""Each browser sees and changes only what its token may, and forms are accepted only from the inspector's pages."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from html import unescape
from itertools import count
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from arc_common import ArcSettings, ConfigurationError, ContextEngine, MemoryNotFoundError, Message
from arc_common.server import Role, Token, build_inspector, create_app
from arc_common.server.inspector.app import PAGES, Page

TOKENS = {
    "reader": Token("reader-of-the-shop", "shop", None, Role.READER),
    "writer": Token("writer-of-the-shop", "shop", None, Role.WRITER),
    "reviewer": Token("reviewer-of-the-shop", "shop", None, Role.REVIEWER, "lee"),
    "other user": Token("reviewer-for-ben-alone", "shop", "ben", Role.REVIEWER),
    "other caller": Token("reviewer-of-the-blog", "blog", None, Role.REVIEWER),
}
WHO = ["no token", "wrong token", *TOKENS]
SETTINGS = ArcSettings(rag={"ingestion": {"enabled": True}}, context={"store_receipts": "all"})
NUMBERS = count()
OF_ALL = ("/", "/review")
"""Pages that list everything a token may see, and so exist for each."""
SECRETS = ("I like tea", "has a cat", "Do not call", "within 30 days")
"""Texts of the shop's user ann."""


class Browser:
    """A browser, signed in if its user has a token of the server."""

    def __init__(self, client: TestClient, who: str) -> None:
        self.client = client
        self.csrf = "nothing"
        if who == "wrong token":
            self.client.cookies.set(
                "arc_inspector", "ImZvcmdlZCI.aaaaaa.bbbbbbbbbbbbbbbbbbbbbbbbbbb", path="/inspector"
            )
        if who in TOKENS:
            answer = self.client.post("/inspector/sign-in", data={"token": TOKENS[who].secret})
            assert answer.status_code == 303
            assert answer.headers["location"] == "/inspector/"
            page = self.client.get("/inspector/")
            assert page.status_code == 200
            found = re.search(r'name="csrf" value="([^"]+)"', page.text)
            assert found
            self.csrf = found[1]

    def ask(self, page: Page, query: dict[str, str], form: dict[str, str], **headers: str) -> Any:
        path = f"/inspector{page.path}"
        if page.method == "GET":
            return self.client.get(path, params=query, headers=headers)
        return self.client.post(path, params=query, data={"csrf": self.csrf, **form}, headers=headers)


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[ContextEngine, dict[str, Browser]]]:
    with ContextEngine.open("sqlite://", settings=SETTINGS) as engine:
        app = create_app(engine, list(TOKENS.values()))
        with ExitStack() as opened:
            yield (
                engine,
                {who: Browser(opened.enter_context(TestClient(app, follow_redirects=False)), who) for who in WHO},
            )


@pytest.fixture
def world(served: tuple[ContextEngine, dict[str, Browser]]) -> tuple[dict[str, Browser], dict[str, str]]:
    """Return the browsers, and the parameters that name a conversation's parts."""
    engine, browsers = served
    return browsers, conversation(engine)


def conversation(engine: ContextEngine) -> dict[str, str]:
    """Store a conversation of a new user of the shop; return the parameters that name its parts."""
    number = next(NUMBERS)
    session_id, user_id = f"s{number}", f"ann{number}"
    session = engine.session(session_id, caller_id="shop", user_id=user_id)
    session.append([Message("user", "I like tea.", id="m1"), Message("assistant", "You said: I like tea.")])
    session.context("Do I like tea?")
    engine.flush()
    captured = engine.ingestion_of("shop").capture(
        "How long can I return it?",
        "You can return it within 30 days.",
        run_id="r",
        session_id=session_id,
        user_id=user_id,
    )
    assert captured
    memories = engine.memories(caller_id="shop", user_id=user_id)
    return {
        "id": session_id,
        "user": user_id,
        "pin": session.pin("Do not call.").id,
        "memory": memories.add("Ann has a cat.").id,
        "candidate": captured.id,
        "request": engine.admin.requests(session_id, caller_id="shop", user_id=user_id)[0].id,
    }


FORMS = {
    "/pin": {"text": "No peanuts."},
    "/memory/edit": {"text": "Ann has two cats.", "importance": "0.7", "revision": "1"},
    "/review/approve": {"comment": "checked"},
    "/review/reject": {"comment": "wrong"},
}


def expected(page: Page, who: str) -> int:
    done = 200 if page.method == "GET" else 303
    if who in ("no token", "wrong token"):
        return 303 if page.method == "GET" else 401
    if who.startswith("other"):
        return done if page.path in OF_ALL else 404
    return done if Role(who).includes(page.role) else 403


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.method} {page.path}")
def test_every_token_at_every_page(served: Any, page: Page) -> None:
    """Forms act and pages show content, and neither exceeds the token."""
    engine, browsers = served
    names = conversation(engine)
    for who in WHO:
        is_taken = page.method == "POST" and expected(page, who) == 303
        query = conversation(engine) if is_taken else dict(names)  # a form works only once
        if who == "other user":
            del query["user"]
        answer = browsers[who].ask(page, query, FORMS.get(page.path, {}))
        assert answer.status_code == expected(page, who), (who, answer.text)
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        if who in ("no token", "wrong token") and page.method == "GET":
            assert answer.headers["location"].startswith("/inspector/sign-in?next=")
        if page.method == "GET" and answer.status_code == 200:
            assert any(secret in unescape(answer.text) for secret in SECRETS) == (not who.startswith("other")), who
    if page.path != "/":  # a token of one user can't name another
        answer = browsers["other user"].ask(page, names, FORMS.get(page.path, {}))
        assert answer.status_code in (403, 404)


FORGED = [
    pytest.param({"csrf": ""}, {}, id="no secret"),
    pytest.param({"csrf": "guessed"}, {}, id="guessed"),
    pytest.param({}, {"sec-fetch-site": "cross-site"}, id="another site"),
    pytest.param({}, {"sec-fetch-site": "same-site"}, id="another port or subdomain"),
    pytest.param({}, {"origin": "https://evil.example"}, id="another origin"),
    pytest.param({}, {"origin": "null"}, id="hidden origin"),
    pytest.param({}, {"content-type": "text/plain"}, id="no form"),
]


@pytest.mark.parametrize(("form", "headers"), FORGED)
def test_a_form_of_another_page_does_nothing(
    served: Any, world: Any, form: dict[str, str], headers: dict[str, str]
) -> None:
    engine, browsers = served
    names = world[1]
    forget = next(one for one in PAGES if one.path == "/memory/forget")
    assert browsers["writer"].ask(forget, names, form, **headers).status_code in (403, 415)
    memories = engine.memories(caller_id="shop", user_id=names["user"])
    assert memories.get(names["memory"]).text == "Ann has a cat."
    assert browsers["writer"].ask(forget, names, {}, origin="http://testserver").status_code == 303
    with pytest.raises(MemoryNotFoundError):
        memories.get(names["memory"])


def test_a_browser_signs_in_and_out(served: Any, world: Any) -> None:
    """Scripts can't read the cookie, other sites can't send it, and its path is that of the pages."""
    engine, _ = served
    client = TestClient(
        create_app(engine, list(TOKENS.values())), follow_redirects=False, base_url="https://arc.example"
    )
    address = f"/inspector/conversation?id={world[1]['id']}&user={world[1]['user']}"
    asked = client.get(address)
    assert asked.status_code == 303
    page = client.get(asked.headers["location"])
    wanted = re.search(r'name="next" value="([^"]+)"', page.text)
    assert wanted
    token = TOKENS["reader"].secret
    for wrong in ("", "of-nobody-at-all", "비밀번호"):
        refused = client.post("/inspector/sign-in", data={"token": wrong})
        assert (refused.status_code, "no such token" in refused.text) == (401, True)
    forged = client.post("/inspector/sign-in", data={"token": token}, headers={"origin": "https://evil.example"})
    assert forged.status_code == 403
    answer = client.post("/inspector/sign-in", data={"token": token, "next": unescape(wanted[1])})
    assert answer.headers["location"] == address
    cookie = answer.headers["set-cookie"]
    assert all(word in cookie for word in ("HttpOnly", "Path=/inspector", "SameSite=strict", "Secure", "Max-Age=43200"))
    assert token not in cookie
    shown = client.get(answer.headers["location"])
    csrf = re.search(r'name="csrf" value="([^"]+)"', shown.text)
    assert csrf
    assert "I like tea" in shown.text
    assert client.post("/inspector/sign-out").status_code in (403, 415)
    assert client.post("/inspector/sign-out", data={"csrf": csrf[1]}).status_code == 303
    assert client.get("/inspector/").status_code == 303


def test_signing_in_leads_to_no_other_site(served: Any) -> None:
    engine, _ = served
    client = TestClient(create_app(engine, list(TOKENS.values())), follow_redirects=False)
    for address in (
        "https://evil.example", "//evil.example", "/sign-out", "\\\\evil.example", "javascript:alert(1)", "/\nx",
    ):  # fmt: skip
        answer = client.post("/inspector/sign-in", data={"token": TOKENS["reader"].secret, "next": address})
        assert answer.headers["location"] == "/inspector/", address


def test_a_cookie_ends_with_its_token(served: Any) -> None:
    """A server without the token rejects the browser, and the cookie is not valid for another token."""
    engine, browsers = served
    cookies = browsers["reader"].client.cookies
    without = TestClient(create_app(engine, [TOKENS["reviewer"]]), follow_redirects=False, cookies=cookies)
    assert without.get("/inspector/").status_code == 303
    beside = TestClient(create_app(engine, [TOKENS["reader"]]), follow_redirects=False, cookies=cookies)
    assert beside.get("/inspector/").status_code == 200


def test_pages_without_tokens_are_for_this_machine_only() -> None:
    """They need no sign-in, and their forms are still protected."""
    with ContextEngine.open("sqlite://") as engine:
        with pytest.raises(ConfigurationError, match="no token is configured"):
            build_inspector(engine, [])
        engine.session("s").append(Message("user", "I like tea."))
        app = build_inspector(engine, [], anonymous=True)
        here = TestClient(app, base_url="http://127.0.0.1", client=("127.0.0.1", 5000), follow_redirects=False)
        shown = here.get("/conversation?id=s")
        csrf = re.search(r'name="csrf" value="([^"]+)"', shown.text)
        assert csrf
        assert here.post("/pin?id=s", data={"csrf": "guessed", "text": "Tea."}).status_code == 403
        assert here.post("/pin?id=s", data={"csrf": csrf[1], "text": "Tea."}).status_code == 303
        assert [pin.text for pin in engine.session("s").pins()] == ["Tea."]
        assert here.get("/sign-in").headers["location"] == "/"
        assert here.get("/", headers={"Host": "evil.example"}).status_code == 403
        away = TestClient(app, base_url="http://127.0.0.1", client=("10.0.0.1", 5000))
        assert away.get("/").status_code == 403


def test_wrong_addresses_and_forms_are_refused_as_pages(world: Any) -> None:
    """The response is a page that states the error, never a traceback."""
    browsers, names = world
    client, csrf = browsers["reviewer"].client, browsers["reviewer"].csrf
    of_ann = f"id={names['id']}&user={names['user']}"
    wrong = {
        "/inspector/nowhere": 404,
        "/inspector/static/../app.py": 404,
        "/inspector/conversation": 422,
        "/inspector/conversation?id=nobody": 404,
        f"/inspector/conversation?{of_ann}&branch=x": 422,
        f"/inspector/conversation?{of_ann}&branch=7": 404,
        f"/inspector/conversation?{of_ann}&before=missing": 422,
        f"/inspector/turn?{of_ann}&request=missing": 404,
        f"/inspector/turn?{of_ann}&turn=9": 422,
        f"/inspector/turn?{of_ann}&message=missing": 422,
        "/inspector/?status=odd": 422,
        "/inspector/?active=odd": 422,
        "/inspector/?cursor=odd": 422,
        "/inspector/review?status=odd": 422,
    }
    for address, status in wrong.items():
        answer = client.get(address)
        assert (answer.status_code, "<h1>" in answer.text) == (status, True), address
    assert client.put("/inspector/").status_code == 405
    tried = client.get(f"/inspector/turn?{of_ann}&turn=1&try_window=many")
    assert (tried.status_code, "expected a whole number" in tried.text) == (200, True)
    pin = next(one for one in PAGES if one.path == "/pin")
    assert browsers["reviewer"].ask(pin, {**names, "message": "missing"}, {}).status_code == 404
    assert browsers["reviewer"].ask(pin, names, {"text": " "}).status_code == 422
    edit = next(one for one in PAGES if one.path == "/memory/edit")
    for form in (
        {},
        {"text": "", "importance": "1", "revision": "1"},
        {"text": "a", "importance": "x", "revision": "1"},
    ):
        assert browsers["reviewer"].ask(edit, names, form).status_code == 422
    stale = browsers["reviewer"].ask(edit, names, {"text": "New.", "importance": "0.5", "revision": "9"})
    assert stale.status_code == 409
    huge = client.post("/inspector/pin", params=names, data={"csrf": csrf, "text": "a" * 300_000})
    assert huge.status_code == 413


def test_a_candidate_is_decided_once(world: Any) -> None:
    """The second reviewer sees the first one's decision."""
    browsers, names = world
    approve, reject = (one for one in PAGES if one.path.startswith("/review/"))
    assert browsers["reviewer"].ask(approve, names, {"comment": "checked"}).status_code == 303
    second = browsers["reviewer"].ask(reject, names, {"comment": "wrong"})
    assert (second.status_code, "is INGESTED already" in second.text) == (409, True)


@pytest.mark.parametrize("name", ["a/b?c=d&e#f", "%41 +é", "../..", '"><b>', "주문 12", " a"])
def test_any_conversation_and_user_is_reached_by_its_links(served: Any, name: str) -> None:
    """Links lead from the list to the conversation, its request and back; texts can be pinned."""
    engine, browsers = served
    session = engine.session(name, caller_id="shop", user_id=name)
    session.append([Message("user", "Is it there?", id=name), Message("assistant", "It is.")])
    session.context("Is it there?")
    engine.flush()
    client, csrf = browsers["writer"].client, browsers["writer"].csrf
    page = client.get("/inspector/", params={"user": name}).text
    for pattern in (r'href="(/inspector/conversation[^"]+)"', r'href="(/inspector/turn[^"]+)"', r'/ <a href="([^"]+)"'):
        found = re.search(pattern, page)
        assert found, pattern
        answer = client.get(unescape(found[1]))
        assert answer.status_code == 200
        page = answer.text
    pin = re.search(r'action="(/inspector/pin[?][^"]*message=[^"]*)"', page)
    assert pin
    assert client.post(unescape(pin[1]), data={"csrf": csrf}).status_code == 303
    assert [one.message_id for one in session.pins()] == [name]


def test_the_server_leads_to_the_pages_wherever_it_is() -> None:
    """If its engine is closed, the page says so without its URL."""
    with ContextEngine.open("sqlite://") as engine:
        app = create_app(engine, [TOKENS["reader"]])
        around = Starlette(routes=[Mount("/arc", app)])
        client = TestClient(around)
        shown = client.get("/arc/")
        assert str(shown.url) == "http://testserver/arc/inspector/sign-in?next=%2F"
        signed_in = client.post("/arc/inspector/sign-in", data={"token": TOKENS["reader"].secret})
        assert str(signed_in.url) == "http://testserver/arc/inspector/"
        assert client.get("/arc/inspector").status_code == 200
        styles = re.search(r'rel="stylesheet" href="([^"]+)"', signed_in.text)
        assert styles
        assert ".arc-window" in client.get(styles[1]).text
        engine.close()
        closed = client.get("/arc/inspector/")
        assert (closed.status_code, "can&#39;t be reached" in closed.text) == (503, True)


def test_an_unexpected_error_is_a_page_that_tells_nothing() -> None:
    class Broken:
        is_broken = False

        def __call__(self) -> datetime:
            if self.is_broken:
                message = "a secret of the server"
                raise RuntimeError(message)
            return datetime.now(UTC)

    clock = Broken()
    with ContextEngine.open("sqlite://", clock=clock) as engine:
        app = build_inspector(engine, [], anonymous=True)
        client = TestClient(app, base_url="http://127.0.0.1", client=("127.0.0.1", 1), raise_server_exceptions=False)
        assert client.get("/").status_code == 200
        clock.is_broken = True
        answer = client.get("/")
        clock.is_broken = False
    assert (answer.status_code, "<h1>Internal Server Error</h1>" in answer.text) == (500, True)
    assert "content-security-policy" in answer.headers
    assert "secret" not in answer.text
