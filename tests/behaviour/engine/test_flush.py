"""`engine.flush` waits for summaries, the index for recall and long-term memories."""

from arc_common import ContextEngine, Message
from arc_common.testing import CountingObserver, ReplyingChatModel, SlowChatModel

LONG = 30.0
"""Seconds that nothing here takes."""


def talk(count):
    """So many messages, user and assistant in turn; the first states something worth a memory."""
    said = [Message(("user", "assistant")[n % 2], f"We spoke about part {n} of the plan.") for n in range(count)]
    return [Message("user", "I live in Lisbon and I prefer window seats."), said[1], *said[2:]]


def test_all_background_work_has_ended_after_it():
    observer = CountingObserver()
    with ContextEngine.open(observer=observer) as engine:
        session = engine.session("s", user_id="ann")
        session.append(talk(60))
        assert engine.flush(LONG)
        assert session.summary().summarized_up_to > 0
        assert any("Lisbon" in memory.text for memory in engine.memories(user_id="ann").list())
        before = observer.counts.copy()
        assert engine.flush(0)
        assert observer.counts == before


def test_it_tells_when_the_time_was_too_short():
    """A model that is still at work holds it up, as long as the caller allows."""
    model = SlowChatModel(ReplyingChatModel(["[]"]))
    with ContextEngine.open(chat_model=model) as engine:
        engine.session("s", user_id="ann").append(talk(2))
        assert model.asked.wait(LONG)
        assert not engine.flush(0.01)
        model.may_answer.set()
        assert engine.flush()
        assert model.answered.is_set()


def test_times_of_access_are_written(tmp_path):
    url = f"sqlite:///{tmp_path}/arc.db"
    with ContextEngine.open(url) as engine, ContextEngine.open(url) as other:
        engine.memories(user_id="ann").add("I live in Lisbon.")
        engine.memories(user_id="ann").search("Lisbon")
        assert engine.flush(LONG)
        (memory,) = other.memories(user_id="ann").list()
        assert memory.last_accessed_at is not None


async def test_an_engine_without_work_returns_at_once():
    engine = ContextEngine.open()
    assert await engine.aflush(0)
    await engine.aclose()
    assert engine.flush(0)
