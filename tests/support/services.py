"""The internal services, for tests of one part of the memory."""

from datetime import UTC, datetime
from itertools import count
from typing import Any

from arc_common.memory.long_term.contradictions import Contradictions
from arc_common.memory.services import Services
from arc_common.observability import SilentObserver
from arc_common.settings import ArcSettings
from arc_common.stores import SqlStore
from arc_common.tokens.counters import HeuristicTokenCounter

_NUMBERS = count(1)


def services(store: Any = None, **parts: Any) -> Services:
    """Return services with a store in memory, default settings and rules, unless others are given."""
    defaults: dict[str, Any] = {
        "store": SqlStore() if store is None else store,
        "settings": ArcSettings(),
        "token_counter": HeuristicTokenCounter(),
        "observer": SilentObserver(),
        "clock": lambda: datetime.now(UTC),
        "new_id": lambda: f"new-{next(_NUMBERS)}",
        "contradictions": Contradictions(),
    }
    return Services(**{**defaults, **parts})
