"""A cap on a session's messages never costs the facts in them, and one that would is refused."""

import pytest

from arc_common import ArcSettings, ConfigurationError, ContextEngine, Message
from tests.support.databases import sqlite_url

CASES = {
    "defaults": {},
    "small": {"leaf_messages": 4, "recent_message_count": 2, "trigger_message_count": 6},
    "nothing recent": {"leaf_messages": 8, "recent_message_count": 0, "trigger_message_count": 4},
    "much recent": {"leaf_messages": 8, "recent_message_count": 30, "trigger_message_count": 4},
    "late": {"leaf_messages": 8, "recent_message_count": 2, "trigger_message_count": 40},
    "by number": {"high_water_tokens": 0},
}


def smallest(summary: dict[str, int]) -> int:
    """The smallest cap that is taken beside these settings."""
    settings = ArcSettings(summary=summary).summary
    return 2 * settings.leaf_messages + settings.recent_message_count + settings.trigger_message_count


@pytest.mark.parametrize("summary", CASES.values(), ids=CASES)
def test_a_cap_below_what_summaries_need_is_refused(summary: dict[str, int]) -> None:
    """With both names, the value, the least that works and the reason."""
    cap = smallest(summary) - 1
    with pytest.raises(ConfigurationError) as caught:
        ArcSettings(summary=summary, storage={"max_messages_per_session": cap})
    assert f"storage.max_messages_per_session: got {cap}, expected at least {cap + 1}" in str(caught.value)
    assert "before their facts are read" in str(caught.value)
    assert ArcSettings(summary={**summary, "enabled": False}, storage={"max_messages_per_session": 1})


@pytest.mark.parametrize("with_replies", [True, False], ids=["replies between", "one reply at the end"])
@pytest.mark.parametrize("long_turns", [False, True], ids=["turns of 2", "turns of half a leaf"])
@pytest.mark.parametrize("summary", CASES.values(), ids=CASES)
def test_no_fact_is_lost_at_the_smallest_cap(
    tmp_path, summary: dict[str, int], long_turns: bool, with_replies: bool
) -> None:
    """What the cap takes was read for facts before, and the next reply shows them, also in turns of many messages."""
    settings = ArcSettings(
        summary=summary,
        storage={"max_messages_per_session": smallest(summary)},
        budget={"facts": 20_000},
        conversation={"max_turns": 1_000},
    )
    length = settings.summary.leaf_messages // 2 if long_turns else 2
    turns = 2 * smallest(summary) // length
    with ContextEngine.open(sqlite_url(tmp_path), settings=settings) as engine:
        session = engine.session("s")
        for number in range(turns):
            said = f"The code of locker {number} is QX-{1000 + number}."
            if with_replies:
                window = session.context(said)
                shown = "\n".join(message.text for message in window.messages)
                assert [old for old in range(number) if f"QX-{1000 + old}" not in shown] == []
            session.append([Message("user", said), *(Message("assistant", f"Step {n}.") for n in range(1, length))])
            session.summarize()
        shown = "\n".join(message.text for message in session.context("And now?").messages)
        known = shown + "\n".join(fact.value for fact in session.facts())
        assert [old for old in range(turns) if f"QX-{1000 + old}" not in known] == []
        assert len(session.messages()) <= smallest(summary)
