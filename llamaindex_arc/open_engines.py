"""Finds an engine again by a name that says nothing about it: what is serialised can't carry an engine."""

from threading import Lock
from uuid import uuid4
from weakref import WeakKeyDictionary, WeakValueDictionary

from arc_common.engine.context_engine import ContextEngine

_lock = Lock()
_names: "WeakKeyDictionary[ContextEngine, str]" = WeakKeyDictionary()
_engines: "WeakValueDictionary[str, ContextEngine]" = WeakValueDictionary()


def name_of(engine: ContextEngine) -> str:
    """A name that is the engine's own for as long as it lives, in this process and in those forked from it."""
    with _lock:
        name = _names.setdefault(engine, uuid4().hex)
        _engines[name] = engine
        return name


def engine_named(name: object) -> ContextEngine | None:
    """The engine of that name, if it lives in this process; it may have been closed."""
    with _lock:
        return _engines.get(name) if isinstance(name, str) else None
