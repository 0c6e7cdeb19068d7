"""The inspector's pages with much, little and missing content."""

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from html import unescape
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from arc_common import ArcSettings, ContextEngine, Message, TokenBudget
from arc_common.server import build_inspector

SETTINGS = {"rag": {"ingestion": {"enabled": True}}, "context": {"store_receipts": "all"}}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[ContextEngine]:
    settings = ArcSettings(**SETTINGS, archive={"enabled": True, "url": f"file://{tmp_path / 'archive'}"})
    with ContextEngine.open(f"sqlite:///{tmp_path / 'arc.db'}", settings=settings) as engine:
        yield engine


@pytest.fixture
def client(engine: ContextEngine) -> Iterator[TestClient]:
    app = build_inspector(engine, [], anonymous=True)
    with TestClient(app, base_url="http://127.0.0.1", client=("127.0.0.1", 5000)) as client:
        yield client


def paged(client: TestClient, address: str, shown: Callable[[str], list[str]], link: str) -> list[list[str]]:
    """Return the shown items of each page, from first to last."""
    pages = []
    while address:
        answer = client.get(address)
        assert answer.status_code == 200
        pages.append(shown(answer.text))
        found = re.search(f'href="([^"]+)">{link}<', answer.text)
        address = unescape(found[1]) if found else ""
        assert len(pages) < 9, "it does not end"
    return pages


def test_conversations_are_paged_with_their_filters(engine: ContextEngine, client: TestClient) -> None:
    """Each appears once, newest first; a search continues on the next page."""
    for number in range(35):
        engine.session(f"s{number}", user_id="ann").append(
            Message("user", f"Is there {'oak' if number < 3 else 'ash'}?")
        )
        engine.session(f"t{number}", user_id="bo").append(Message("user", "Hello."))
    listed = paged(client, "/?user=ann", lambda page: re.findall(r">(s\d+|t\d+)</a>", page), "Older ones")
    assert list(map(len, listed)) == [30, 5]
    assert [name for page in listed for name in page] == [f"s{number}" for number in reversed(range(35))]
    found = paged(client, "/?user=ann&q=oak", lambda page: re.findall(r">(s\d+)</a>", page), "Search older ones")
    assert found == [[], ["s2", "s1", "s0"]]


def test_messages_are_paged_to_the_first(engine: ContextEngine, client: TestClient) -> None:
    session = engine.session("s")
    session.append([Message("user" if n % 2 else "assistant", f"This is number {n}.") for n in range(1, 101)])
    numbers = paged(
        client, "/conversation?id=s", lambda page: re.findall(r'auto">This is number (\d+)\.', page), "Older messages"
    )
    assert list(map(len, numbers)) == [40, 40, 20]
    assert sorted((int(one) for page in numbers for one in page), reverse=True) == list(range(100, 0, -1))


def test_candidates_are_paged(engine: ContextEngine, client: TestClient) -> None:
    for number in range(33):
        captured = engine.ingestion.capture(
            f"How long does order {number} take?", "It takes about three weeks.", run_id=f"r{number}", channel="web"
        )
        assert captured
    pages = paged(client, "/review?channel=web", lambda page: re.findall(r"order (\d+) take", page), "More")
    assert [int(one) for page in pages for one in page] == list(range(33))


def test_looking_restores_no_archived_conversation(engine: ContextEngine, client: TestClient) -> None:
    """The page says where the messages are, shows sent requests, and has a button that restores them."""
    session = engine.session("s", user_id="ann")
    session.save_turn("Is there oak?", "There is.")
    session.context("And ash?")
    engine.flush()
    engine.admin.archive(older_than=timedelta(0))
    for address in ("/", "/?q=oak", "/?status=archived", "/?q=s"):
        assert ("its messages are in the archive" in client.get(address).text) == (address != "/?q=oak")
    opened = "/conversation?id=s&user=ann"
    page = client.get(opened).text
    (record,) = engine.admin.sessions(status="archived").conversations
    assert record.archived_as
    assert record.archived_as in page
    assert "2 messages" in page
    assert "There is." not in page
    (request,) = re.findall(r'href="(/turn[^"]+)"', page)
    sent = client.get(unescape(request)).text
    assert "And ash?" in sent
    assert "it answers is in the archive" in sent
    for looked in ("/turn?id=s&user=ann&turn=1", f"{opened}&q=oak", f"{opened}&branch=0"):
        assert client.get(looked).text.count("brings them back by itself") == 1
    assert engine.admin.debug("s", user_id="ann").conversation.message_count == 2
    assert engine.admin.sessions(status="archived").conversations == (record,)
    (restore,) = re.findall(r'action="([^"]+/?restore[^"]+)"', page)
    (csrf,) = set(re.findall(r'name="csrf" value="([^"]+)"', page))
    assert "There is." in client.post(unescape(restore), data={"csrf": csrf}).text
    assert [one.archived_as for one in engine.admin.sessions(status="active").conversations] == [None]


def test_a_deleted_conversation_is_listed_only(engine: ContextEngine, client: TestClient) -> None:
    engine.session("gone").save_turn("Is there oak?", "There is.")
    engine.session("gone").delete(soft=True)
    assert "gone" not in client.get("/").text
    listed = client.get("/?status=deleted").text
    assert "gone" in listed
    assert "There is." not in listed
    assert "/conversation?" not in listed
    assert client.get("/conversation?id=gone").status_code == 404


def test_each_branch_shows_its_own_messages(engine: ContextEngine, client: TestClient) -> None:
    """It also names the branch that it was forked from."""
    session = engine.session("s")
    session.append([Message("user", "Is there oak?", id="m1"), Message("assistant", "There is.")])
    idea = session.fork(at="m1", name="idea")
    idea.append(Message("assistant", "There is ash."))
    page = client.get("/conversation?id=s").text
    (address,) = re.findall(r'href="([^"]+branch=1)"', page)
    assert "There is ash." not in page
    assert "from branch 0" in page
    branch = client.get(unescape(address)).text
    assert "There is ash." in branch
    assert "There is." not in branch
    assert "branch=1" in re.findall(r'href="(/turn[^"]+)"', branch)[0]


def test_turns_without_stored_requests_are_shown_as_built_today(tmp_path: Path) -> None:
    """Each turn links to its neighbours and is compared with the previous one."""
    with ContextEngine.open(f"sqlite:///{tmp_path / 'arc.db'}") as engine:
        for number in range(3):
            engine.session("s").save_turn(f"Is there oak number {number}?", "There is.")
        client = TestClient(
            build_inspector(engine, [], anonymous=True), base_url="http://127.0.0.1", client=("127.0.0.1", 1)
        )
        page = client.get("/conversation?id=s").text
        assert "No request of this conversation is stored" in page
        links = re.findall(r'href="(/turn[^"]+)">As built today', page)
        assert len(links) == 3
        turn = client.get(unescape(links[1])).text
        assert "Turn 2" in turn
        assert "As it would be built today" in turn
        assert "It begins with the whole previous request" in turn
        assert "turn=1" in turn
        assert "turn=3" in turn
        assert "Nothing is stored" in turn


def test_a_request_too_large_to_be_kept_says_so(engine: ContextEngine, client: TestClient) -> None:
    """Its tokens by section are shown."""
    engine.session("s").append(Message("user", "Hello."))
    engine.session("s").context("Is there ash?")
    engine.flush()
    long = "oak " * 300_000
    engine.session("s").context("Is there oak?", system_prompt=long, budget=TokenBudget(1_000_000))
    engine.flush()
    request = engine.admin.requests("s")[0]
    assert not request.window.messages
    page = client.get(f"/turn?id=s&request={request.id}").text
    assert "too large to be kept" in page
    assert "system prompt" in page
    assert "cache reads" not in page
    assert client.get("/conversation?id=s").status_code == 200
