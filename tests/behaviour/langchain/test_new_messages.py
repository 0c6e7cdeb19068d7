"""Selection of a batch's new messages."""

from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from arc_common import Message
from arc_common.messages import Role, same_content
from langchain_arc.stored_messages import new_messages, taken_meanwhile


def user(text: str, message_id: str | None = None) -> Message:
    return Message("user", text, id=message_id)


def answer(text: str, message_id: str | None = None) -> Message:
    return Message("assistant", text, id=message_id)


old = [user("yes", "u1"), answer("good", "a1"), user("no", "u2"), answer("bad", "a2")]
known = {message.id: message for message in old if message.id}
q, a = user("yes", "u3"), answer("fine", "a3")

CASES: dict[str, tuple[list[Message], list[Message]]] = {
    "nothing": ([], []),
    "a new turn": ([user("yes"), a], [user("yes"), a]),
    "all is known": (old, []),
    "behind the conversation": ([*old, q, a], [q, a]),
    "input before and behind it": ([q, *old, q, a], [q, a]),
    "input before and behind a window": ([q, *old[2:], q, a], [q, a]),
    "input that had no id yet": ([user("yes"), *old, q, a], [q, a]),
    "input that had no id yet, first turn": ([user("yes"), q, a], [q, a]),
    "several inputs without ids": (
        [user("yes"), user("and"), *old, q, user("and", "u4"), a],
        [q, user("and", "u4"), a],
    ),
    "a first turn with several inputs": ([q, answer("x", "a9"), q, answer("x", "a9"), a], [q, answer("x", "a9"), a]),
    "a system message of the graph's": (
        [user("yes"), Message("system", "Be brief.", id="s1"), *old, q, a],
        [Message("system", "Be brief.", id="s1"), q, a],
    ),
    "the same words again": ([*old, user("yes"), answer("good")], [user("yes"), answer("good")]),
    "two equal messages without ids": ([user("yes"), user("yes"), a], [user("yes"), user("yes"), a]),
    "several turns, one repeated with an id": (
        [user("yes"), answer("x", "a8"), user("yes", "u8"), answer("y", "a9")],
        [user("yes"), answer("x", "a8"), user("yes", "u8"), answer("y", "a9")],
    ),
    "a known answer to a new question": ([user("yes"), old[1]], [user("yes"), answer("good")]),
    "a known answer behind the conversation": ([*old, user("hm", "u3"), old[3]], [user("hm", "u3"), answer("bad")]),
    "one answer to several new questions": (
        [user("1"), a, user("2"), a, user("3"), a],
        [user("1"), a, user("2"), answer("fine"), user("3"), answer("fine")],
    ),
    "a known result of a tool": (
        [user("1"), Message("tool", "42", tool_call_id="c", id="a1")],
        [user("1"), Message("tool", "42", tool_call_id="c")],
    ),
    "one message of the user's twice": ([user("1"), q, q, a], [user("1"), q, q, a]),  # the store keeps one of them
    "a summary in front of what was kept": (
        [q, user("so far: …", "sum"), *old[2:], q, a],
        [user("so far: …", "sum"), q, a],
    ),
    "an edit": ([old[0], answer("better", "a1"), q], [answer("better", "a1"), q]),
}


def test_what_is_new() -> None:
    """New messages are returned in order, once."""
    for case, (batch, new) in CASES.items():
        assert new_messages(batch, known) == new, case


def test_what_was_read_and_cleared_meanwhile_stays_cleared() -> None:
    """Known messages that are no longer stored are not stored again, whatever their content."""
    assert new_messages([q, *old, q, a], dict.fromkeys(known)) == [q, a]


def test_an_answer_whose_id_another_run_took_meanwhile() -> None:
    """Its time tells: it is older than a certainly new message. Edits keep their time, too."""
    earlier, now = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
    given_now = [user("hi"), a, answer("better", "a1"), q]
    stored = [
        replace(message, id=message.id or "new", created_at=time)
        for message, time in zip(given_now, [now, earlier, earlier, now], strict=True)
    ]
    assert taken_meanwhile(given_now, stored, known) == [answer("fine")]
    assert taken_meanwhile(given_now[1:], stored[1:], known) == []


turns = st.lists(st.sampled_from(["yes", "no", ""]), max_size=4)


@given(turns, turns.filter(bool), st.booleans(), st.integers(0, 8))
def test_an_agents_state_adds_its_new_turn(before: list[str], inputs: list[str], ids: bool, shown: int) -> None:
    """Any inputs, with or without ids, around any window of any conversation are added once."""
    state = [message for n, text in enumerate(before) for message in (user(text, f"u{n}"), answer(text, f"a{n}"))]
    new = [*(user(text, f"new{n}") for n, text in enumerate(inputs)), answer("done", "done")]
    first = [message if ids else replace(message, id=None) for message in new[:-1]]
    batch = [*first, *state[len(state) - min(shown, len(state)) :], *new]
    assert new_messages(batch, {message.id: message for message in state if message.id}) == new


@given(st.lists(st.tuples(st.sampled_from([Role.USER, Role.ASSISTANT]), st.sampled_from(["yes", "no"])), max_size=8))
def test_messages_without_ids_are_all_new(said: list[tuple[Role, str]]) -> None:
    """Nothing distinguishes equal messages, so they are not merged."""
    batch = [Message(role, text) for role, text in said]
    stored = new_messages(batch, known)
    assert len(stored) == len(batch)
    assert all(map(same_content, stored, batch))
