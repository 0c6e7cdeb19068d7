"""Only answers that people approve enter the knowledge base, once."""

import copy
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier

import pytest

from arc_common import (
    ArcSettings,
    CandidateNotFoundError,
    ConfigurationError,
    ContextEngine,
    InvalidInputError,
    ReviewConflictError,
)
from tests.support.databases import on_sqlite, rows

QUESTION = "How long can I return my order?"
ANSWER = "You can return any order within 30 days, free of charge."


class Vectors:
    name = "letters"

    def embed(self, texts: list[str]) -> list[list[float]]:
        return [[text.count(letter) + 0.1 for letter in "aeiost"] for text in texts]


def with_policy(memory: dict[str, object] | None = None, **policy: object) -> ArcSettings:
    return ArcSettings(rag={"ingestion": {"enabled": True, **policy}}, memory=memory or {})


@pytest.fixture
def engine(database: str, opened: Callable[..., ContextEngine]) -> ContextEngine:
    return opened(database, settings=with_policy(), embedder=Vectors())


def test_an_approved_answer_is_found_and_shown(engine: ContextEngine) -> None:
    """It becomes a document with its candidate's id, the decision has reviewer and reason, and a turn shows it."""
    queue = engine.ingestion
    captured = queue.capture(QUESTION, ANSWER, run_id="r1", session_id="s", user_id="ann", channel="web")
    assert captured is not None
    assert (captured.status, captured.query, captured.response, captured.channel) == (
        "PENDING",
        QUESTION,
        ANSWER,
        "web",
    )
    assert engine.documents.search("return an order") == []
    approved = queue.approve(captured.id, reviewer="lee", comment="checked with legal")
    assert (approved.status, approved.reviewer, approved.comment) == ("INGESTED", "lee", "checked with legal")
    assert queue.get(captured.id) == approved
    found = engine.documents.search("return an order")
    assert [one.document.id for one in found] == [approved.document_id]
    assert engine.documents.get([approved.document_id or ""]) == [found[0].document]
    assert "vector" in found[0].score_parts
    window = engine.session("other", user_id="ben").context("How long may I return an order?")
    assert ANSWER in window.messages[-1].text
    assert queue.candidates().candidates == ()
    assert [one.id for one in queue.candidates("ingested").candidates] == [captured.id]


class OtherVectors:
    name = "other letters"

    def embed(self, texts: list[str]) -> list[list[float]]:
        return [[text.count(letter) + 0.1 for letter in "xyz"] for text in texts]


@on_sqlite
def test_an_answer_is_approved_after_a_change_of_the_embedder(
    engine: ContextEngine, database: str, opened: Callable[..., ContextEngine]
) -> None:
    """It is found by words until new vectors are made."""
    first = engine.ingestion.capture(QUESTION, ANSWER, run_id="r1")
    assert first is not None
    engine.ingestion.approve(first.id, reviewer="lee")
    changed = opened(database, settings=with_policy(), embedder=OtherVectors())
    second = changed.ingestion.capture("How long does a refund take?", "Refunds take a week.", run_id="r2")
    assert second is not None
    approved = changed.ingestion.approve(second.id, reviewer="lee")
    assert changed.documents.search("refund week")[0].document.id == approved.document_id


@on_sqlite
def test_a_rejected_answer_is_no_document(engine: ContextEngine) -> None:
    """It can't be approved afterwards."""
    captured = engine.ingestion.capture(QUESTION, ANSWER, run_id="r1")
    assert captured is not None
    rejected = engine.ingestion.reject(captured.id, reviewer="lee", comment="wrong")
    assert (rejected.status, rejected.document_id) == ("REJECTED", None)
    with pytest.raises(ReviewConflictError, match="REJECTED already"):
        engine.ingestion.approve(captured.id, reviewer="kim")
    assert engine.documents.count() == 0


@on_sqlite
def test_a_run_is_captured_once(engine: ContextEngine) -> None:
    """A second capture returns the first candidate, even after its review."""
    first = engine.ingestion.capture(QUESTION, ANSWER, run_id="r1", session_id="s")
    again = engine.ingestion.capture(QUESTION, "Another answer, of the same run.", run_id="r1", session_id="s")
    assert first == again
    assert first is not None
    engine.ingestion.approve(first.id, reviewer="lee")
    third = engine.ingestion.capture(QUESTION, ANSWER, run_id="r1", session_id="s")
    assert third is not None
    assert third.status == "INGESTED"
    assert engine.documents.count() == 1


def decided(engine: ContextEngine, other: ContextEngine, name: str) -> list[bool]:
    """Let one reviewer approve and another reject a candidate simultaneously; return the one who decided."""
    barrier = Barrier(2)

    def decide(decision: Callable[..., object]) -> bool:
        barrier.wait()
        try:
            decision(name, reviewer="lee")
        except ReviewConflictError:
            return False
        return True

    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(decide, (engine.ingestion.approve, other.ingestion.reject)))
    assert sorted(done) == [False, True]
    return done


def test_two_reviewers_at_the_same_moment(
    engine: ContextEngine, database: str, opened: Callable[..., ContextEngine]
) -> None:
    """One decides, the other gets the decision, and the document exists exactly if it was approved."""
    other = opened(database, settings=with_policy(), embedder=Vectors())
    for number in range(6):
        captured = engine.ingestion.capture(f"{QUESTION} ({number})", f"{ANSWER} ({number})", run_id=f"r{number}")
        assert captured is not None
        done = decided(engine, other, captured.id)
        found_as = engine.ingestion.get(captured.id)
        assert found_as.status == ("INGESTED" if done[0] else "REJECTED")
        ids = [found_as.document_id] if found_as.document_id else []
        found = engine.documents.search(f"({number}) order", top_k=20)
        texts = [one.document.text for one in found if f"({number})" in one.document.text]
        assert len(texts) == len(ids)


@on_sqlite
def test_two_reviewers_of_a_memory_at_the_same_moment(database: str, opened: Callable[..., ContextEngine]) -> None:
    """One decides, the other gets the decision, and the memory holds exactly if it was approved."""
    engine, other = (opened(database, settings=with_policy(memory={"enabled": True})) for _ in range(2))
    memories = engine.memories(user_id="ann")
    for number in range(6):
        memories.add(f"Ann's locker has the number {number}{number}{number}.", status="PENDING")
        (waiting,) = engine.ingestion.candidates().candidates
        done = decided(engine, other, waiting.id)
        assert memories.get(waiting.run_id).status == ("ACTIVE" if done[0] else "REJECTED")


@pytest.mark.parametrize(
    ("policy", "channel", "is_captured"),
    [
        ({"enabled": False}, "web", False),
        ({"allowed_channels": ["web"]}, "web", True),
        ({"allowed_channels": ["web"]}, "phone", False),
        ({"min_query_chars": len(QUESTION) + 1}, "web", False),
        ({"min_response_chars": len(ANSWER) + 1}, "web", False),
        ({"blocked_patterns": [r"within \d+ DAYS"]}, "web", False),
        ({"blocked_patterns": [r"how long"]}, "web", False),
        ({"blocked_patterns": [r"\bcard \d{4}"]}, "web", True),
    ],
)
def test_the_policy_decides(
    opened: Callable[..., ContextEngine], policy: dict[str, object], channel: str, is_captured: bool
) -> None:
    engine = opened(settings=with_policy(**policy))
    assert bool(engine.ingestion.capture(QUESTION, ANSWER, run_id="r", channel=channel)) is is_captured


def test_without_a_review_an_answer_is_a_document_at_once(opened: Callable[..., ContextEngine]) -> None:
    """A second capture of the run is the same document."""
    engine = opened(settings=with_policy(require_review=False))
    captured = engine.ingestion.capture(QUESTION, ANSWER, run_id="r")
    assert captured is not None
    assert engine.ingestion.capture(QUESTION, ANSWER, run_id="r") == captured
    assert (captured.status, captured.reviewer) == ("INGESTED", None)
    assert engine.documents.count() == 1


def test_a_pattern_that_hangs_other_engines_takes_linear_time(opened: Callable[..., ContextEngine]) -> None:
    """(a+)+$ takes backtracking engines practically forever; an invalid pattern is rejected at once."""
    engine = opened(settings=with_policy(blocked_patterns=["(a+)+$", "(x|x)*y"]))
    start = time.process_time()
    assert engine.ingestion.capture("a" * 99_999 + "!", "x" * 100_000, run_id="r")
    assert time.process_time() - start < 5
    with pytest.raises(ConfigurationError, match="fewer repetitions"):  # linear, but 0.2 s for 1,000 characters
        opened(settings=with_policy(blocked_patterns=["(?:a?b?){500}(?:a?b?){500}c", "(?:a?b?){500}c"]))
    with pytest.raises(ConfigurationError, match=r"rag\.ingestion\.blocked_patterns: got '\(\?=a\)'"):
        opened(settings=with_policy(blocked_patterns=["(?=a)"]))


@on_sqlite
def test_a_policy_changes_at_run_time(database: str, opened: Callable[..., ContextEngine]) -> None:
    """It applies to all processes of its caller until it is reset, if the settings allow it."""
    engine, other = (opened(database, settings=with_policy(dynamic_enabled=True)) for _ in range(2))
    assert engine.ingestion.set_policy(min_query_chars=7).min_query_chars == 7
    changed = engine.ingestion.set_policy(allowed_channels=["web"], min_query_chars=3)
    assert (changed.allowed_channels, changed.min_query_chars, changed.enabled) == (("web",), 3, True)
    assert other.ingestion.policy() == changed
    assert other.ingestion.capture(QUESTION, ANSWER, run_id="r", channel="phone") is None
    assert other.ingestion_of("shop").policy().allowed_channels == ()
    with pytest.raises(ConfigurationError, match="min_query_chars"):
        engine.ingestion.set_policy(min_query_chars=-1)
    with pytest.raises(InvalidInputError, match="blocked_patterns"):
        engine.ingestion.set_policy(blocked_patterns=["("])
    assert engine.ingestion.policy() == changed
    assert engine.ingestion.reset_policy().allowed_channels == ()
    assert other.ingestion.policy().allowed_channels == ()
    static = opened(database, settings=with_policy())
    with pytest.raises(ConfigurationError, match="dynamic_enabled"):
        static.ingestion.set_policy(enabled=False)
    with pytest.raises(ConfigurationError, match="dynamic_enabled"):
        static.ingestion.reset_policy()


def test_two_change_the_policy_at_the_same_moment(database: str, opened: Callable[..., ContextEngine]) -> None:
    """Both succeed and both changes are kept."""
    engines = [opened(database, settings=with_policy(dynamic_enabled=True)) for _ in range(2)]
    for number in range(5):
        barrier = Barrier(2)

        def change(engine: ContextEngine, start: Barrier = barrier, value: int = number) -> None:
            start.wait()
            field = "min_query_chars" if engine is engines[0] else "min_response_chars"
            engine.ingestion.set_policy(**{field: value})  # type: ignore[arg-type]

        engines[0].ingestion.reset_policy()
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(change, engines))
        policy = engines[0].ingestion.policy()
        assert (policy.min_query_chars, policy.min_response_chars) == (number, number)


def test_pages_by_status_channel_and_user(database: str, opened: Callable[..., ContextEngine]) -> None:
    """Pages are oldest first, without repetition, even if candidates arrive in between."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    engine = opened(database, settings=with_policy(), clock=lambda: now)
    for number in range(7):
        now += timedelta(minutes=number % 2)
        channel, user = ("web", "ann") if number % 2 else ("phone", "ben")
        engine.ingestion.capture(f"{QUESTION} {number}", ANSWER, run_id=f"r{number}", channel=channel, user_id=user)
    seen: list[str] = []
    cursor = None
    while True:
        page = engine.ingestion.candidates(limit=3, cursor=cursor)
        seen += [one.run_id for one in page.candidates]
        if (cursor := page.next_cursor) is None:
            break
    assert sorted(seen) == [f"r{number}" for number in range(7)]
    assert len(engine.ingestion.candidates(channel="web").candidates) == 3
    assert len(engine.ingestion.candidates(user_id="ben").candidates) == 4
    assert engine.ingestion_of("shop").candidates().candidates == ()
    for wrong in ("x", "", "MTIz", 3):
        with pytest.raises(InvalidInputError, match="cursor"):
            engine.ingestion.candidates(cursor=wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="status"):
        engine.ingestion.candidates("done")


@on_sqlite
def test_extracted_memories_wait_in_the_same_queue(database: str, opened: Callable[..., ContextEngine]) -> None:
    """They hold once approved; a rejected one is not extracted again."""
    engine = opened(database, settings=with_policy(memory={"enabled": True, "require_review": True}))
    session = engine.session("s", user_id="ann")
    session.save_turn("I am allergic to peanuts. My sister lives in Porto.", "Noted.")
    session.context("Hello")
    session.save_turn("What else?", "Nothing.")
    engine.flush(60)
    ann = engine.memories(user_id="ann")
    assert ann.list() == []
    waiting = {one.response: one for one in engine.ingestion.candidates().candidates}
    assert {one.kind for one in waiting.values()} == {"memory"}
    peanuts = next(one for text, one in waiting.items() if "peanuts" in text)
    porto = next(one for text, one in waiting.items() if "Porto" in text)
    assert (peanuts.user_id, peanuts.status) == ("ann", "PENDING")
    approved = engine.ingestion.approve(peanuts.id, reviewer="lee", comment="she said so")
    assert approved.status == "INGESTED"
    engine.ingestion.reject(porto.id, reviewer="lee", comment="private")
    assert [one.text for one in ann.list()] == [peanuts.response]
    assert ann.list()[0].metadata["reviewed_by"] == "lee"
    for decide in (engine.ingestion.approve, engine.ingestion.reject):
        for one in (peanuts, porto):
            with pytest.raises(ReviewConflictError):
                decide(one.id, reviewer="kim")
    assert engine.ingestion.candidates().candidates == ()
    (rejected,) = engine.ingestion.candidates("REJECTED").candidates
    assert (rejected.reviewer, rejected.comment) == ("lee", "private")
    ann.extract("My sister lives in Porto.")
    assert [one.text for one in ann.list()] == [peanuts.response]
    assert engine.ingestion.candidates().candidates == ()


@pytest.mark.parametrize(
    ("database", "removal"),
    [
        *(("sqlite", removal) for removal in ("delete", "clear", "erase user", "erase caller")),
        *(("postgres", removal) for removal in ("delete", "erase user")),
    ],
    indirect=["database"],
)
def test_what_is_removed_takes_its_answers_along(
    database: str, opened: Callable[..., ContextEngine], removal: str
) -> None:
    """Queue and documents lose its rows, even if its session was never stored; others stay."""
    engine = opened(database, settings=with_policy(dynamic_enabled=True))
    session = engine.session("s", caller_id="shop", user_id="ann")
    session.save_turn("Hello there.", "Hello.")
    queue = engine.ingestion_of("shop")
    queue.set_policy(min_query_chars=1)
    for name, user, where in (("S3CRET one", "ann", "s"), ("S3CRET two", "ann", "s"), ("KEPT", "ben", "t")):
        answer = f"Yes, {name} is quite right. " * (
            300 if name == "S3CRET one" else 1
        )  # one in several chunks, one whole
        captured = queue.capture(f"Is {name} right?", answer, run_id=name, user_id=user, session_id=where)
        assert captured is not None
        if name != "S3CRET two":
            queue.approve(captured.id, reviewer="lee")
    assert engine.documents_of("shop").count() > 3
    if removal == "erase user":
        queue.capture("Is S3CRET three right?", ANSWER, run_id="3", user_id="ann", session_id="unstored")
        queue.capture("Is S3CRET four right?", ANSWER, run_id="4", user_id="ann")
        assert engine.admin.erase(caller_id="shop", user_id="ann").is_complete
    elif removal == "erase caller":
        assert engine.admin.erase(caller_id="shop", user_id=None).is_complete
    else:
        getattr(session, removal)()
    kept = removal != "erase caller"
    assert engine.documents_of("shop").count() == int(kept)
    assert [one.run_id for one in queue.candidates("INGESTED").candidates] == (["KEPT"] if kept else [])
    assert queue.policy().min_query_chars == (1 if kept else 10)
    tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'arc\\_%' ESCAPE '\\'"
    if not database.startswith("sqlite"):
        tables = "SELECT tablename FROM pg_tables WHERE tablename LIKE 'arc\\_%'"
    everything = repr([rows(database, f"SELECT * FROM {name}") for (name,) in rows(database, tables)])
    assert "S3CRET" not in everything


@on_sqlite
def test_candidates_of_others_are_unknown(engine: ContextEngine) -> None:
    """So are invalid ids; the errors can be copied."""
    captured = engine.ingestion.capture(QUESTION, ANSWER, run_id="r1")
    assert captured is not None
    for queue, name in (
        (engine.ingestion_of("shop"), captured.id),
        (engine.ingestion, "x"),
        (engine.ingestion, "ab-c"),
    ):
        for act in (lambda q=queue, n=name: q.get(n), lambda q=queue, n=name: q.approve(n, reviewer="lee")):
            with pytest.raises(CandidateNotFoundError) as error:
                act()
            assert str(copy.copy(error.value)) == str(error.value)
    conflict = ReviewConflictError("c", "REJECTED")
    assert str(copy.copy(conflict)) == str(conflict)


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"query": 3}, "query"),
        ({"response": "a\x00b"}, "response"),
        ({"response": "a" * 100_001}, "response"),
        ({"run_id": ""}, "run_id"),
        ({"session_id": ""}, "session_id"),
        ({"user_id": 3}, "user_id"),
        ({"channel": ""}, "channel"),
        ({"captured_at": datetime(2026, 1, 1)}, "captured_at"),  # noqa: DTZ001 - the invalid value
    ],
)
def test_wrong_values_are_refused(opened: Callable[..., ContextEngine], values: dict[str, object], field: str) -> None:
    engine = opened(settings=with_policy())
    given = {"query": QUESTION, "response": ANSWER, "run_id": "r", **values}
    with pytest.raises(InvalidInputError, match=field):
        engine.ingestion.capture(**given)  # type: ignore[arg-type]
    assert engine.ingestion.candidates().candidates == ()


@on_sqlite
async def test_the_async_forms(engine: ContextEngine) -> None:
    captured = await engine.ingestion.acapture(QUESTION, ANSWER, run_id="r1")
    assert captured is not None
    page = await engine.ingestion.acandidates()
    assert page.candidates == (captured,)
    assert (await engine.ingestion.aapprove(captured.id, reviewer="lee")).status == "INGESTED"
    assert (await engine.ingestion.aget(captured.id)).reviewer == "lee"
    assert (await engine.ingestion.apolicy()).enabled
