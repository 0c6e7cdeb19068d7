"""The inspector in a real browser: use by keyboard, on a phone and without scripts, and attempts to inject scripts."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from arc_common import ContextEngine
from tests.support.browsers import CHROMIUM, chromium
from tests.support.inspected import REVIEWER, SETTINGS, fill, serving

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here (Debian: apt install chromium)")

PAGES = {
    "sign-in": "/sign-in",
    "conversations": "/",
    "search": "/?q=chairs",
    "empty": "/?user=nobody",
    "conversation": "/conversation?id=order-7&user=ann",
    "branch": "/conversation?id=order-7&user=ann&branch=1&q=Where+is+my+order",
    "archived": "/conversation?id=order-1&user=ann",
    "threats": "/conversation?id=%3Cscript%3Ealert(1)%3C%2Fscript%3E&user=%3Cb%3Eeve%3C%2Fb%3E",
    "request": "/turn?id=order-7&user=ann&request={request}",
    "what if": "/turn?id=order-7&user=ann&request={request}&try_window=900&try_facts=50",
    "turn": "/turn?id=order-7&user=ann&message=asked",
    "review": "/review",
    "decided": "/review?status=REJECTED",
    "problem": "/conversation?id=nobody",
}

RICH = ("sign-in", "search", "branch", "archived", "what if", "review", "decided", "problem")
"""The pages that show the most of each template."""
SCHEMES: dict[Any, list[str] | None] = {"light": None, "dark": ["color-contrast"]}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("inspector") / "arc.db"


@pytest.fixture(scope="module")
def engine(database: Path) -> Iterator[ContextEngine]:
    with ContextEngine.open(f"sqlite:///{database}", settings=SETTINGS) as engine:
        fill(engine)
        yield engine


@pytest.fixture(scope="module")
def address(engine: ContextEngine) -> Iterator[str]:
    with serving(engine, REVIEWER) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def signed_in(browser: Browser, address: str) -> Any:
    """Sign in with the reviewer's token, and return the browser's cookies."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{address}/review")
    page.get_by_label("Token").fill(REVIEWER.secret)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Review")).to_be_visible()
    cookies = context.storage_state()
    context.close()
    return cookies


class Watched:
    """Opens pages and records the browser's complaints: dialogs of scripts, blocked styles, errors."""

    def __init__(self, browser: Browser, address: str, **options: Any) -> None:
        self.address = address
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))

    def open(self, path: str) -> Page:
        self.page.goto(f"{self.address}{path}")
        return self.page


@pytest.fixture
def watched(browser: Browser, address: str, signed_in: Any) -> Iterator[Watched]:
    """Open a browser with the reviewer's cookies, and check at the end that it had no complaints."""
    watched = Watched(browser, address, storage_state=signed_in)
    yield watched
    watched.context.close()
    assert watched.complaints == []


@pytest.fixture(scope="module")
def paths(engine: ContextEngine) -> dict[str, str]:
    newest = engine.admin.requests("order-7", caller_id="shop", user_id="ann")[1]
    return {name: path.format(request=newest.id) for name, path in PAGES.items()}


def test_words_find_the_conversation_and_its_request(watched: Watched) -> None:
    """A user without a mouse can search, open the conversation and a request, and go to the previous request."""
    page = watched.open("/")
    expect(page.locator(".cards > li")).to_have_count(5)
    page.keyboard.press("/")
    page.keyboard.type("chairs")
    page.keyboard.press("Enter")
    expect(page.locator(".cards > li")).to_have_count(1)
    link = page.get_by_role("link", name="order-7")
    while not link.evaluate("link => link === document.activeElement"):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="order-7")).to_be_visible()
    request = page.get_by_role("link", name="Request ·").last
    request.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("of 9")
    expect(page.get_by_role("heading", name="Compared with the previous request")).to_be_visible()
    expect(page.locator(".legend").first).to_contain_text("tools and schemas")
    page.get_by_role("link", name="Earlier").press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("of 9")


FILTERS = {"user=ann": 2, "status=archived": 1, "active=hour": 5, "q=%EB%B0%B0%EC%86%A1": 1, "q=order-7": 1}


def test_filters_select_conversations(watched: Watched) -> None:
    for query, count in FILTERS.items():
        expect(watched.open(f"/?{query}").locator("li.card.link")).to_have_count(count)


def test_a_reviewer_approves_and_rejects(watched: Watched, engine: ContextEngine) -> None:
    """Comments and keys work; an approved answer becomes a document, and the queue names the reviewer."""
    page = watched.open("/review?channel=web")
    first, second = (page.locator("[data-item]").nth(place) for place in (0, 1))
    expect(first).to_contain_text("May I return order 0?")
    page.keyboard.press("j")
    page.keyboard.type("looks right")
    first.get_by_role("button", name="Approve").press("Enter")
    expect(page.get_by_role("status")).to_have_text("Approved.")
    expect(page.locator("[data-item]").first).to_contain_text("order 1?")
    second = page.locator("[data-item]").first
    second.get_by_label("Comment").fill("<b>wrong</b>")
    second.get_by_role("button", name="Reject").click()
    expect(page.get_by_role("status")).to_have_text("Rejected.")
    queue = engine.ingestion_of("shop")
    (approved,) = queue.candidates("INGESTED").candidates
    assert (approved.comment, approved.reviewer) == ("looks right", "lee")
    assert "within 10 days" in engine.documents_of("shop").search("return order 0", top_k=1)[0].document.text
    page.get_by_role("link", name="Rejected").click()
    expect(page.locator(".cards")).to_contain_text("rejected by lee")
    expect(page.locator(".cards")).to_contain_text("<b>wrong</b>")


def test_memories_are_pinned_changed_approved_and_forgotten(watched: Watched, engine: ContextEngine) -> None:
    memories = engine.memories(caller_id="shop", user_id="bo")
    page = watched.open("/conversation?id=order-8&user=bo")

    def entry(text: str) -> Any:
        return page.locator("#memories .entry", has_text=text)

    entry("prefers oak").get_by_role("button", name="Pin").click()
    expect(entry("prefers oak")).to_contain_text("pinned")
    entry("Elm Street").get_by_text("Edit", exact=True).click()
    entry("Elm Street").get_by_label("Text").fill("Bo lives in 14 Ash Street.")
    entry("Elm Street").get_by_label("Importance").fill("0.9")
    entry("Elm Street").get_by_role("button", name="Save").click()
    expect(page.get_by_role("status")).to_contain_text("changed")
    expect(entry("Ash Street")).to_contain_text("revision 2")
    entry("invoice").get_by_role("button", name="Approve").click()
    expect(entry("invoice")).not_to_contain_text("pending")
    entry("Ash Street").get_by_text("Forget", exact=True).click()
    entry("Ash Street").get_by_role("button", name="Forget it").click()
    expect(page.get_by_role("status")).to_contain_text("forgotten")
    texts = {one.text: one for one in memories.list()}
    assert texts["Bo prefers oak."].pinned
    assert "Bo wants the invoice by post." in texts
    assert not any("Street" in text for text in texts)


def test_messages_and_texts_are_pinned(watched: Watched, engine: ContextEngine) -> None:
    session = engine.session("order-7", caller_id="shop", user_id="ann")
    page = watched.open("/conversation?id=order-7&user=ann")
    page.locator("#asked").get_by_role("button", name="Pin").click()
    expect(page.locator("#pins")).to_contain_text("Where is HN-003?")
    page.get_by_label("A text to pin").fill("Nobody is at home on Mondays.")
    page.keyboard.press("Enter")
    expect(page.locator("#pins")).to_contain_text("Mondays")
    pinned = [one.text for one in session.pins()]
    assert {"Where is HN-003?", "Nobody is at home on Mondays."} <= set(pinned)
    page.locator("#pins .entry", has_text="HN-003").get_by_role("button", name="Unpin").click()
    expect(page.locator("#pins")).not_to_contain_text("HN-003")
    assert "Where is HN-003?" not in [one.text for one in session.pins()]


def test_what_if_stores_nothing(watched: Watched, engine: ContextEngine, database: Path, paths: dict[str, str]) -> None:
    """The turn is assembled again with other limits, and the database does not change."""

    def stored() -> list[str]:
        engine.flush()
        with closing(sqlite3.connect(database)) as connection:
            return list(connection.iterdump())

    before = stored()
    page = watched.open(paths["request"])
    page.get_by_label("Model’s window").fill("900")
    page.get_by_label("Facts").fill("20")
    page.get_by_role("button", name="Try").click()
    expect(page.locator("#what-if tfoot")).to_contain_text("-")
    expect(page.locator("#what-if").get_by_role("heading", name="Removed")).to_be_visible()
    page.get_by_label("Model’s window").fill("20")
    page.get_by_role("button", name="Try").click()
    expect(page.get_by_role("alert")).to_contain_text("tokens")
    assert stored() == before


def test_nothing_that_was_said_runs(watched: Watched, engine: ContextEngine) -> None:
    """Scripts, markup and control characters are shown as text on every page."""
    threats = engine.admin.requests("<script>alert(1)</script>", caller_id="shop", user_id="<b>eve</b>")
    own = "id=%3Cscript%3Ealert(1)%3C%2Fscript%3E&user=%3Cb%3Eeve%3C%2Fb%3E"
    for path in ("/", "/?q=%3Cscript%3E", f"/conversation?{own}", f"/turn?{own}&request={threats[0].id}", "/review"):
        page = watched.open(path)
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        assert (
            page.evaluate("document.querySelectorAll('main script, main b, main i, main iframe, main img').length") == 0
        )
        assert "<script>" in page.locator("main").inner_text()
        assert "\u202e" not in page.locator("main").inner_text()


def test_every_page_fits_a_telephone_and_axe_finds_nothing_serious(
    browser: Browser, address: str, signed_in: Any, paths: dict[str, str]
) -> None:
    """No unfolded page scrolls sideways at 360 pixels; those that show the most of each template have no violation.

    The dark scheme is checked for contrast only, since only its colours differ.
    """
    watched = Watched(browser, address, storage_state=signed_in)
    found = {}
    for name, path in paths.items():
        page = watched.open(path)
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        page.set_viewport_size({"width": 360, "height": 700})
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0, name
        page.set_viewport_size({"width": 1280, "height": 720})
        for scheme, rules in SCHEMES.items() if name in RICH else ():
            page.emulate_media(color_scheme=scheme)
            options = {"runOnly": rules, "resultTypes": ["violations"]} if rules else {"resultTypes": ["violations"]}
            violations = Axe().run(page, options=options).response["violations"]
            found |= {
                f"{name}, {scheme}: {one['id']}": [node["html"][:200] for node in one["nodes"][:3]]
                for one in violations
                if one["impact"] in ("serious", "critical")
            }
    watched.context.close()
    assert found == {}


def test_a_link_on_another_site_leads_to_the_page(browser: Browser, address: str, signed_in: Any) -> None:
    """The page opens although browsers send no cookie with such a link."""
    watched = Watched(browser, address, storage_state=signed_in)
    watched.page.goto(f"{address.replace('127.0.0.1', 'localhost')}/sign-in")
    watched.page.evaluate("address => { location.href = address }", f"{address}/conversation?id=order-7&user=ann")
    expect(watched.page.get_by_role("heading", name="order-7")).to_be_visible()
    watched.context.close()


def test_pages_work_without_scripts(browser: Browser, address: str, signed_in: Any) -> None:
    """Without JavaScript, a reviewer can still reject an answer."""
    watched = Watched(browser, address, storage_state=signed_in, java_script_enabled=False)
    page = watched.open("/review?channel=web")
    waiting = page.locator("[data-item]")
    before = waiting.count()
    waiting.first.get_by_role("button", name="Reject").click()
    expect(page.get_by_role("status")).to_have_text("Rejected.")
    expect(waiting).to_have_count(before - 1)
    watched.context.close()
