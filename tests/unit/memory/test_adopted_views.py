"""Views that turns adopted: one for all turns, stored behind them, gone with an edit."""

from arc_common.memory.summaries.adoption import AdoptedViews
from arc_common.protocols import SessionKey
from arc_common.stores import SqlStore
from arc_common.testing.conversation_store_contract import counted
from arc_common.testing.summary_store_contract import a_view

KEY = SessionKey("session", user_id="user")


def a_store() -> tuple[SqlStore, int]:
    """A session of eight messages, and its epoch."""
    store = SqlStore()
    store.append(KEY, [counted(f"m{n}") for n in range(1, 9)])
    return store, store.summaries.state(KEY, limit=0).epoch


def test_of_two_that_adopt_at_once_one_does() -> None:
    """The second turn gets the first one's view."""
    store, epoch = a_store()
    views = AdoptedViews(store.summaries)
    first, second = a_view(1, 4), a_view(1, 8)
    assert views.adopt(KEY, first, epoch=epoch) is first
    assert views.adopt(KEY, second, epoch=epoch) is first


def test_it_holds_before_it_is_stored_and_afterwards() -> None:
    """A turn sees it in place of the store's until the store has it; saving twice is saving once."""
    store, epoch = a_store()
    views = AdoptedViews(store.summaries)
    before = store.summaries.state(KEY, limit=9)
    views.adopt(KEY, a_view(1, 4), epoch=epoch)
    known = views.newest(KEY)
    assert known is not None
    assert known.is_ahead_of(before)
    assert (views.waiting(), views.is_stored(KEY, epoch=epoch)) == ([KEY], False)
    assert views.save(KEY)
    assert views.save(KEY)
    assert (views.waiting(), views.is_stored(KEY, epoch=epoch)) == ([], True)
    after = store.summaries.state(KEY, limit=9)
    assert after.view == a_view(1, 4)
    assert not known.is_ahead_of(after)
    assert known.is_ahead_of(before)  # a turn that read its state before it was stored


def test_an_edit_ends_it() -> None:
    """It is neither shown nor stored after that, and stands in no other view's way."""
    store, epoch = a_store()
    views = AdoptedViews(store.summaries)
    views.adopt(KEY, a_view(1, 4), epoch=epoch)
    known = views.newest(KEY)
    store.append(KEY, [counted("m2", "changed")])
    state = store.summaries.state(KEY, limit=0)
    assert known is not None
    assert not known.is_ahead_of(state)
    assert views.is_stored(KEY, epoch=state.epoch)
    assert not views.save(KEY)
    assert (views.newest(KEY), store.summaries.state(KEY, limit=0).view) == (None, None)
    views.adopt(KEY, a_view(1, 6), epoch=state.epoch)
    assert views.save(KEY)


def test_another_process_was_first() -> None:
    """Its view holds, and the one adopted here is forgotten."""
    store, epoch = a_store()
    here, there = AdoptedViews(store.summaries), AdoptedViews(store.summaries)
    here.adopt(KEY, a_view(1, 4), epoch=epoch)
    there.adopt(KEY, a_view(1, 6), epoch=epoch)
    assert there.save(KEY)
    assert not here.save(KEY)
    assert here.newest(KEY) is None
    assert store.summaries.state(KEY, limit=0).view == a_view(1, 6)


def test_forgetting() -> None:
    """Nothing of the session is left."""
    store, epoch = a_store()
    views = AdoptedViews(store.summaries)
    views.adopt(KEY, a_view(1, 4), epoch=epoch)
    views.forget(KEY)
    assert views.newest(KEY) is None
    assert views.save(KEY)
    assert store.summaries.state(KEY, limit=0).view is None
