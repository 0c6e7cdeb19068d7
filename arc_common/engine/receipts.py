"""Stores receipts, and shows them: in the log, beside a streamed answer, and as they were sent."""

import logging
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from threading import Lock
from typing import TYPE_CHECKING, overload

from arc_common.caches import LRUCache, drop_texts
from arc_common.concurrency import BackgroundQueue, begin_in_each_process
from arc_common.context import ContextWindow, Receipt
from arc_common.memory.services import Services
from arc_common.messages import Message
from arc_common.protocols import SessionKey
from arc_common.protocols.receipts import KeptReceipt
from arc_common.protocols.search_index import Scope

if TYPE_CHECKING:
    from arc_common.engine.session import Session

_log = logging.getLogger("arc.receipts")

_WAITING = 64
"""The most receipts that wait for the store; further ones are dropped and counted."""
_EARLY = 4
"""The most receipts of a session that wait for its first message."""
_PATIENCE = 5.0
"""Seconds: the longest wait for a receipt that is being written."""
_SAMPLED = 0.1
"""The share of receipts that "sampled" keeps."""


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request as it was sent, from its stored receipt.

    Args:
        id: The request's id.
        created_at: When it was built (UTC).
        branch: The number of the branch on which it was built.
        window: Its messages, sections and receipt; without messages if these were too large to be kept.
    """

    id: str
    created_at: datetime
    branch: int
    window: ContextWindow


_Waiting = tuple[KeptReceipt, Receipt]
"""A receipt that waits to be stored; its items are made only then."""


class ReceiptLog:
    """Writes receipts in the background, so that no reply waits for or fails with the store."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._store = services.store.receipts
        self._mode = services.settings.context.store_receipts
        begin_in_each_process(self._begin)
        self.queue: BackgroundQueue[SessionKey] = BackgroundQueue(self._write, threads=1, on_error=self._count)

    def _begin(self) -> None:
        self._lock = Lock()
        self._waiting: dict[SessionKey, list[_Waiting]] = {}
        self._early: LRUCache[SessionKey, list[_Waiting]] = LRUCache(_WAITING)

    def note(self, key: SessionKey, receipt: Receipt, messages: Sequence[Message], *, at_seq: int | None) -> None:
        """Keep a request's receipt and messages, or a sample of them. Never raises; does no I/O."""
        run_id = self._services.new_id()
        if self._mode == "sampled" and sha256(run_id.encode()).digest()[0] >= _SAMPLED * 256:
            return
        kept = KeptReceipt(run_id, self._services.clock(), at_seq, {}, tuple(messages))
        with self._lock:
            is_full = sum(map(len, self._waiting.values())) >= _WAITING
            if not is_full:
                self._waiting.setdefault(key, []).append((kept, receipt))
        if is_full:
            self._services.observer.count("receipts.dropped")
            return
        self.queue.schedule(key)

    def saved(self, key: SessionKey) -> None:
        """Store the receipts that were made before the session's first message was stored."""
        if not self._early:
            return
        with self._lock:
            for early in [one for one in self._early if one.session == key.session]:
                self._waiting.setdefault(early, []).extend(self._early.pop(early))
                self.queue.schedule(early)

    def find(self, key: SessionKey, *, limit: int) -> list[SentRequest]:
        """Return the newest requests of a session, the newest first."""
        if any(one.session == key.session for one in list(self._waiting)):
            self.queue.wait(_PATIENCE)
        return [
            SentRequest(one.run_id, one.created_at, one.branch, _window_of(one))
            for one in self._store.find(key, limit=limit)
        ]

    def forget(self, scope: Scope, *, whole: bool = False) -> None:
        """Remove every stored receipt that may quote something removed from a scope.

        Requests quote a user's other sessions and memories, or those of all users if these share their memories.
        """
        whole = whole or self._services.settings.memory.scope == "caller"

        def may_quote(key: SessionKey) -> bool:
            return key.caller_id == scope.caller_id and (whole or key.user_id == scope.user_id)

        def drop() -> None:
            with self._lock:
                for held in (self._waiting, self._early):
                    for key in filter(may_quote, list(held)):
                        del held[key]

        drop_texts(drop)
        self.queue.wait(_PATIENCE)  # for one that is being written
        self._store.forget(scope.caller_id, user_id=scope.user_id, whole=whole)

    def close(self) -> None:
        """Store the waiting receipts, and stop; never raises."""
        for key in list(self._waiting):
            try:
                self._write(key)
            except Exception as error:  # noqa: BLE001 - a lost receipt must not keep an engine from closing
                self._count(error)
        self.queue.close()

    def _write(self, key: SessionKey) -> None:
        with self._lock:
            mine, self._waiting[key] = self._waiting.get(key, []), []  # `find` also waits for those being stored
        try:
            whole = [replace(kept, receipt=receipt.to_dict(texts=True)) for kept, receipt in mine]
            is_kept = not mine or self._store.keep(key, whole)
        finally:
            with self._lock:
                if not self._waiting.get(key):
                    self._waiting.pop(key, None)
        if not is_kept:
            with self._lock:  # the session's first message is not stored yet
                self._early[key] = [*self._early.get(key, ()), *(one for one in mine if one[0].at_seq == 0)][-_EARLY:]

    def _count(self, error: Exception) -> None:
        _log.warning("a receipt was not stored: %s", error)
        self._services.observer.count("receipts.errors", error=type(error).__name__)


def _window_of(kept: KeptReceipt) -> ContextWindow:
    """Return the window of a stored request."""
    receipt = Receipt.from_dict(kept.receipt, texts={one.id: one.text for one in kept.messages if one.id})
    return ContextWindow(kept.messages, receipt.sections, receipt.total_tokens, receipt)


@overload
def with_receipt(session: "Session", events: AsyncIterable[str]) -> AsyncIterator[str]: ...
@overload
def with_receipt(session: "Session", events: Iterable[str]) -> Iterator[str]: ...
def with_receipt(session: "Session", events: Iterable[str] | AsyncIterable[str]) -> Iterator[str] | AsyncIterator[str]:
    """Return a stream of server-sent events, followed by the receipt of the session's last request.

        return StreamingResponse(with_receipt(session, events), media_type="text/event-stream")

    - The receipt comes as comments (`Receipt.sse_lines`), which clients ignore, and only if `context.debug`
      (MEMORY_DEBUG) is on. It holds ids, tokens and reasons, but no message text.
    - A sync stream stays sync, an async stream async.
    """
    if isinstance(events, AsyncIterable):
        return _awith_receipt(session, events)
    return _with_receipt(session, events)


def _with_receipt(session: "Session", events: Iterable[str]) -> Iterator[str]:
    yield from events
    yield from session.receipt_events()


async def _awith_receipt(session: "Session", events: AsyncIterable[str]) -> AsyncIterator[str]:
    async for event in events:
        yield event
    for event in await session.areceipt_events():
        yield event
