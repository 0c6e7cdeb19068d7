"""Finds an open engine by an opaque name, because serialised data can't carry an engine."""

from threading import Lock
from uuid import uuid4
from weakref import WeakKeyDictionary, WeakValueDictionary

from arc_common.engine.context_engine import ContextEngine

_lock = Lock()
_names: "WeakKeyDictionary[ContextEngine, str]" = WeakKeyDictionary()
_engines: "WeakValueDictionary[str, ContextEngine]" = WeakValueDictionary()


def name_of(engine: ContextEngine) -> str:
    """Return a name unique to the engine while it lives, in this process and in those forked from it."""
    with _lock:
        name = _names.setdefault(engine, uuid4().hex)
        _engines[name] = engine
        return name


def engine_named(name: object) -> ContextEngine | None:
    """Return the engine of that name, possibly closed; `None` if it does not live in this process."""
    with _lock:
        return _engines.get(name) if isinstance(name, str) else None
