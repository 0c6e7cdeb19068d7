"""The views that turns have adopted here: shown at once, stored behind them."""

from dataclasses import dataclass
from threading import Lock

from cachetools import LRUCache

from arc_common.protocols import SessionKey
from arc_common.protocols.summaries import SessionState, SummaryStore, View

__all__ = ["AdoptedView", "AdoptedViews"]

_SESSIONS = 1_024


@dataclass(frozen=True, slots=True)
class AdoptedView:
    """A view that a turn of this process adopted.

    Args:
        epoch: The session's epoch then.
        view: The view.
        stored: Whether the store has it.
    """

    epoch: int
    view: View
    stored: bool = False

    def is_ahead_of(self, state: SessionState) -> bool:
        """Whether it holds in place of the state's view."""
        return self.epoch == state.epoch and self.view.version > (state.view.version if state.view else 0)


class AdoptedViews:
    """Keeps what a turn adopted until the store has it, so that no turn waits for a disk or another writer.

    - All turns of this process see one view, whether it is stored yet or not.
    - It is never stored nor shown after an edit, a removal, a clearing or a deletion: the epoch is another then.
    - Where another process adopts first, its view holds from the next turn on, and this one is forgotten.
    - One that is lost with its process is adopted again from the same segments.

    Args:
        store: Where views are stored.
    """

    def __init__(self, store: SummaryStore) -> None:
        self._store = store
        self._lock = Lock()
        self._sessions: LRUCache[SessionKey, AdoptedView] = LRUCache(_SESSIONS)

    def newest(self, key: SessionKey) -> AdoptedView | None:
        """What was adopted here last. Ask before the state is read: what is stored meanwhile is then in the state."""
        with self._lock:
            return self._sessions.get(key)

    def adopt(self, key: SessionKey, view: View, *, epoch: int) -> View:
        """Let a view hold, unless another turn was first; the one that holds."""
        with self._lock:
            known = self._sessions.get(key)
            if known is not None and known.epoch == epoch and known.view.version >= view.version:
                return known.view
            self._sessions[key] = AdoptedView(epoch, view)
            return view

    def is_stored(self, key: SessionKey, *, epoch: int) -> bool:
        """Whether nothing of this epoch waits to be stored."""
        known = self.newest(key)
        return known is None or known.stored or known.epoch != epoch

    def save(self, key: SessionKey) -> bool:
        """Store what waits; whether all that was adopted here holds. What does not is forgotten."""
        known = self.newest(key)
        if known is None or known.stored:
            return True
        stored = self._store.adopt(key, known.view, epoch=known.epoch)
        with self._lock:
            if self._sessions.get(key) is known:
                if stored:
                    self._sessions[key] = AdoptedView(known.epoch, known.view, stored=True)
                else:
                    del self._sessions[key]
        return stored

    def waiting(self) -> list[SessionKey]:
        """The sessions for which something waits."""
        with self._lock:
            return [key for key, known in self._sessions.items() if not known.stored]

    def forget(self, key: SessionKey) -> None:
        """Keep nothing of this session."""
        with self._lock:
            self._sessions.pop(key, None)
