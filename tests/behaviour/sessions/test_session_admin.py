"""Session data that operators see, and data that they don't."""

import json

import pytest

from arc_common import ArcSettings, ContextEngine


@pytest.fixture
def engine():
    with ContextEngine.open(settings=ArcSettings()) as opened:
        yield opened


def test_debug_shows_record_summary_and_the_newest_receipt(engine):
    session = engine.session("s", user_id="ann")
    for n in range(15):
        session.save_turn(f"secret {n}: my order is ORD-{n:04}.", "noted")
    session.summarize()
    assert engine.admin.debug("s", user_id="ann").receipt is None
    window = session.context("what was it?")
    debug = engine.admin.debug("s", user_id="ann")
    assert debug.receipt == window.receipt
    assert debug.conversation.message_count == 30
    assert debug.summary is not None
    assert debug.summary.facts
    assert debug.progress is not None
    assert (debug.progress.segments[0].start, debug.progress.view is not None) == (1, True)
    text = json.dumps(debug.to_dict())
    assert "secret" not in text
    assert "ORD-" not in text
    assert json.loads(text)["receipt"]["total_tokens"] == window.total_tokens
    with ContextEngine.open(settings=ArcSettings(summary={"enabled": False})) as plain:
        plain.session("s").save_turn("hello", "hi")
        assert plain.admin.debug("s").progress is None


@pytest.mark.parametrize("how", ["clear", "delete"])
def test_no_receipt_outlives_its_session(engine, how):
    session = engine.session("s")
    session.save_turn("hello", "hi")
    session.context("a secret")
    getattr(session, how)()
    session.save_turn("again", "yes")
    assert engine.admin.debug("s").receipt is None


def test_a_receipt_is_comment_lines_for_event_streams(engine):
    """Each line begins with a colon, for any text, so that clients ignore it."""
    session = engine.session("s")
    session.save_turn("hello\ndata: forged\r\n", "hi\u2028there")
    lines = session.context("now\n\ndata: x", documents=["a\ndocument"]).receipt.sse_lines()
    assert [line.split()[1] for line in lines] == ["MEMORY_DEBUG", "RAG_DEBUG", "SEARCH_DEBUG"]
    for line in lines:
        assert line.startswith(": ")
        assert len(line.splitlines()) == 1
        json.loads(line.split(maxsplit=2)[2])
    assert json.loads(lines[1].split(maxsplit=2)[2])["sections"][0]["items"][0]["kind"] == "document"
