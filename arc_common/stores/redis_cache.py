"""A store over a database whose conversations' newest messages are cached in Redis, or in Valkey.

A cached tail is never trusted: each read asks the database for the branch's epoch and number of messages, and for the
messages from the tail's last one on, in one round trip. The epoch changes with every edit, removal, fork and clearing;
while it stays, messages are only added at the end or dropped by a cap. So if the tail's last message is unchanged and
the numbers agree, its other messages are, too, whatever was lost, evicted, delayed or restored in Redis. The cache
saves reading the rows of messages, never the question of whether they are current.
"""

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from secrets import token_bytes
from threading import Lock
from typing import Any, TypeVar

from sqlalchemy import Engine, StaticPool

from arc_common.circuit_breaker import Breaker
from arc_common.concurrency import begin_in_each_process
from arc_common.exceptions import (
    ConfigurationError,
    MissingDependencyError,
    StoreError,
    StoreUnavailableError,
    scrubbed,
)
from arc_common.observability import Observer, guarded_observer
from arc_common.protocols import Branch, Cipher, CountedMessage, SessionKey, StoredMessage
from arc_common.protocols.conversations import BranchAction, Idle
from arc_common.protocols.summaries import SessionState
from arc_common.settings import ArchiveSettings, RedisSettings, StorageSettings
from arc_common.stores.archive.store import SqlArchive
from arc_common.stores.codec import MESSAGE_COLUMNS, digest, message_row, stored_from_row
from arc_common.stores.conversations import SqlStore
from arc_common.stores.database.connection import Database
from arc_common.stores.database.encryption import Seal
from arc_common.stores.erasure import SqlTraces
from arc_common.stores.summaries import SqlSummaries

T = TypeVar("T")

_log = logging.getLogger("arc.stores")

_MOST_READ = 256
"""Larger reads, by conversations far beyond their summaries, are not cached."""
_MOST_BYTES = 1_000_000
_LEASE = 60_000
"""Milliseconds that a reader has to write the tail that it found missing."""
_FAILURES = 3


@dataclass(frozen=True, slots=True)
class Tail:
    """The messages of a branch after the place `start`, at one epoch, of `count` messages in all."""

    epoch: int
    count: int
    start: int
    messages: tuple[StoredMessage, ...]

    @property
    def last(self) -> int:
        """The place of the newest message."""
        return self.messages[-1].seq

    @property
    def version(self) -> str:
        """The values that the scripts compare."""
        return f"{self.epoch} {self.count} {self.start} {self.last}"

    @classmethod
    def of(cls, state: SessionState, limit: int) -> "Tail | None":
        """Return the tail of a state that was read with a limit; `None` without messages."""
        if not state.messages:
            return None
        start = state.boundary if len(state.messages) < limit else state.messages[0].seq - 1
        return cls(state.epoch, state.message_count, start, state.messages)

    @classmethod
    def read(cls, version: bytes, rows: bytes, seal: Seal) -> "Tail":
        """Read a tail that `version` and `rows_of` wrote."""
        epoch, count, start, _ = map(int, version.split())
        found = json.loads(b"[%b]" % rows)
        if seal.is_on:
            found = [json.loads(seal.opened(row)) for row in found]
        tail = cls(epoch, count, start, tuple(map(stored_from_row, found)))
        if tail.version.encode() != version:
            raise ValueError("other messages than the version says")
        return tail

    def replaces(self, other: "Tail", limit: int) -> bool:
        """Return whether this tail, read with a limit, has newer messages or far fewer that are summarised."""
        is_whole = len(self.messages) < limit or limit == _MOST_READ
        return is_whole and (other.last < self.last or 2 * len(self.messages) + 8 <= len(other.messages))

    def completed(self, state: SessionState, limit: int) -> SessionState | None:
        """Return a state read from the tail's last message on with all its messages; `None` if the tail is outdated."""
        read, boundary = state.messages, state.boundary
        if len(read) >= limit or boundary >= self.last - 1:
            return state  # the database had all that is wanted
        same = read and read[0] == self.messages[-1] and state.epoch == self.epoch
        if not same or state.message_count != self.count + len(read) - 1:
            return None
        messages = tuple([stored for stored in self.messages[:-1] if stored.seq > boundary]) + read
        if self.start > boundary and len(messages) < limit:
            return None
        return replace(state, messages=messages[-limit:])


def rows_of(messages: Iterable[StoredMessage], seal: Seal) -> bytes:
    """Return messages as JSON, separated by commas, so that more can be appended: arrays of columns, or encrypted."""
    rows = []
    for stored in messages:
        place = {"seq": stored.seq, "revision": stored.revision, "branch": stored.branch, "channel": stored.thread}
        row = {**message_row(stored), **place}
        text = json.dumps([row[name] for name in MESSAGE_COLUMNS], ensure_ascii=False, separators=(",", ":"))
        rows.append(json.dumps(seal.closed(text)) if seal.is_on else text)
    return ",".join(rows).encode()


_READ = """
local found = redis.call('HMGET', KEYS[1], ARGV[1], ARGV[1] .. ':rows')
if found[1] and found[2] then return found end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
if redis.call('PTTL', KEYS[1]) < 0 then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
return {}
"""
"""Return a tail, or leave the name of the reader who will write it, so that a tail deleted meanwhile stays deleted."""

_WRITE = """
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return false end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3], ARGV[1] .. ':rows', ARGV[4])
local left = redis.call('PTTL', KEYS[1])
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return left
"""
"""Write a tail if the version, or the reader's name, is still the expected one; return how long the key had to live."""

_APPEND = """
local version = redis.call('HGET', KEYS[1], ARGV[1])
local epoch, count, start, last = string.match(version or '', '^(%d+) (%d+) (%d+) (%d+)$')
if not last or tonumber(last) ~= tonumber(ARGV[2]) - 1 then return false end
local rows = redis.call('HGET', KEYS[1], ARGV[1] .. ':rows') .. ',' .. ARGV[5]
if #rows > tonumber(ARGV[7]) then return redis.call('HDEL', KEYS[1], ARGV[1], ARGV[1] .. ':rows') and false end
version = string.format('%s %d %s %s', epoch, count + ARGV[4], start, ARGV[3])
redis.call('HSET', KEYS[1], ARGV[1], version, ARGV[1] .. ':rows', rows)
local left = redis.call('PTTL', KEYS[1])
redis.call('PEXPIRE', KEYS[1], ARGV[6])
return left
"""
"""Add new messages to a tail that ends right before them; return how long the key had to live."""

_COUNT = """
local now = redis.call('TIME')
now = now[1] * 1000 + math.floor(now[2] / 1000)
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('PEXPIRE', KEYS[1], 2 * ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - 2 * ARGV[3])
local most = redis.call('ZCARD', KEYS[1]) - ARGV[2]
local old = most > 0 and redis.call('ZPOPMIN', KEYS[1], most) or {}
local keys = {}
for place = 1, #old, 2 do keys[#keys + 1] = old[place] end
return keys
"""
"""Note that a conversation is cached; return the keys of those beyond the limit."""

_LIST = """
redis.call('SADD', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
"""
"""Add a key to a user's list."""


class RedisTails:
    """The tails of conversations in Redis. While it does not answer, nothing is found, and writes are lost."""

    def __init__(self, settings: RedisSettings, observer: Observer, cipher: Cipher | None = None) -> None:
        if settings.url is None:
            raise ConfigurationError("redis.url (ARC_REDIS__URL) is not set")
        try:
            import redis  # noqa: PLC0415 - an optional dependency
        except ImportError as error:
            raise MissingDependencyError("The Redis cache", package="redis", extra="redis") from error
        self._redis = redis
        self._seal = Seal(cipher)
        self._settings = settings
        self.observer = observer
        self._url = settings.url.get_secret_value()
        self._counted = f"{settings.key_prefix}conversations"
        self._ttl = round(settings.ttl_minutes * 60_000)
        self._list_ttl = max(round(settings.list_ttl_hours * 3_600_000), self._ttl)
        try:
            self._standalone()
        except ValueError as error:
            reason = scrubbed(str(error), self._url)
            raise ConfigurationError(f"redis.url (ARC_REDIS__URL): got {settings.url}: {reason}") from None
        self._breaker = Breaker(_FAILURES, settings.retry_seconds)
        begin_in_each_process(self._begin)

    def _begin(self) -> None:
        self._lock = Lock()
        self._client: Any = None
        self._problem = ""

    def _options(self) -> dict[str, Any]:
        from redis.backoff import NoBackoff  # noqa: PLC0415 - an optional dependency
        from redis.retry import Retry  # noqa: PLC0415 - the same

        seconds = self._settings.timeout_seconds
        # the server may have closed an idle connection; what took too long once is not tried again
        retry = Retry(NoBackoff(), 1, supported_errors=(self._redis.ConnectionError,))
        return {"socket_timeout": seconds, "socket_connect_timeout": seconds, "retry": retry}

    def _standalone(self) -> Any:
        return self._redis.Redis.from_url(self._url, **self._options())

    def _connected(self) -> Any:
        if (client := self._client) is None:
            client = self._standalone()
            if client.info("cluster").get("cluster_enabled"):
                client.close()
                client = self._redis.RedisCluster.from_url(self._url, **self._options())
            self._client = client
        return client

    def _ask(self, call: Callable[[Any], T]) -> T | None:
        """Return the result of a call to the server; `None` if it fails. Never raises."""
        if self._breaker.is_open:
            self.observer.count("redis.refused")
            return None
        try:
            answer = call(self._connected())
        except Exception as error:  # noqa: BLE001 - a client's own; the database has the answer
            self._failed(error)
            return None
        self._breaker.record(None)
        self._problem = ""
        return answer

    def _failed(self, error: Exception) -> None:
        self.observer.count("redis.errors", error=type(error).__name__)
        self._breaker.record(error)
        with self._lock:
            is_first = not self._problem
            self._problem = f"{type(error).__name__}: {scrubbed(str(error), self._url)}"
        if is_first:
            _log.warning("Redis fails (%s): conversations come from the database meanwhile", self._problem)

    def _run(self, script: str, key: str, *arguments: Any) -> Any:
        return self._ask(lambda client: client.register_script(script)([key], arguments))

    def problems(self) -> dict[str, str]:
        """Return why Redis does not answer, if it does not."""
        self._ask(lambda client: client.ping())
        return {"redis": self._problem} if self._problem else {}

    def check(self) -> None:
        """Raise if Redis does not answer and the database must not take its place."""
        if not self._settings.fallback_to_sql and self._ask(lambda client: client.ping()) is None:
            raise StoreUnavailableError(f"Redis fails ({self._problem}), and redis.fallback_to_sql is off")

    def read(self, key: SessionKey) -> tuple[Tail | None, bytes | None]:
        """Return a branch's tail, if there is one, and the value that `write` expects, if Redis answers."""
        name = token_bytes(8)
        found = self._run(_READ, self._key(key), _field(key), name, min(_LEASE, self._ttl // 2))
        if not found:
            return None, None if found is None else name
        version, rows = found
        try:
            return Tail.read(version, rows, self._seal), version
        except (StoreError, ValueError, TypeError, LookupError, AttributeError) as error:  # not what arc wrote
            self.observer.count("redis.errors", error=type(error).__name__)
            return None, version

    def write(self, key: SessionKey, tail: Tail, expected: bytes) -> None:
        """Write a branch's tail if nobody else has written or deleted it since `read`."""
        rows = rows_of(tail.messages, self._seal)
        if len(rows) <= _MOST_BYTES:
            self._keep(key, self._run(_WRITE, self._key(key), _field(key), expected, tail.version, rows, self._ttl))

    def append(self, key: SessionKey, messages: Sequence[StoredMessage]) -> None:
        """Add messages that were appended to the branch, if its tail ends right before them."""
        first, last, rows = messages[0].seq, messages[-1].seq, rows_of(messages, self._seal)
        arguments = (first, last, len(messages), rows, self._ttl, _MOST_BYTES)
        self._keep(key, self._run(_APPEND, self._key(key), _field(key), *arguments))

    def _keep(self, key: SessionKey, lived: int | None) -> None:
        """Count a conversation among the cached ones, if it is new there or half of its time is over."""
        if lived is None or lived > self._ttl // 2:
            return
        name = self._key(key)
        most = self._settings.max_sessions
        self._run(_LIST, self._user_key(key.caller_id, key.user_id), name, self._list_ttl)
        for other in self._run(_COUNT, self._counted, name, most, self._ttl) or ():
            self._unlink(other)

    def drop(self, key: SessionKey) -> None:
        """Delete the tails of all branches of a conversation."""
        self._unlink(self._key(key))

    def forget(self, key: SessionKey) -> None:
        """Delete the tails of a conversation that is deleted, and its name among those that are cached."""
        name = self._key(key)
        if self._unlink(name):  # otherwise, an erasure finds it by its name
            self._ask(lambda client: client.srem(self._user_key(key.caller_id, key.user_id), name))
            self._ask(lambda client: client.zrem(self._counted, name))

    def _unlink(self, key: str | bytes) -> bool:
        return self._ask(lambda client: client.unlink(key)) is not None

    def erase(self, caller_id: str, user_id: str | None) -> list[str]:
        """Delete all tails on a user's list, even of conversations that are gone; name those that may remain."""
        listed = self._user_key(caller_id, user_id)
        keys = self._ask(lambda client: client.smembers(listed))
        if keys:
            self._ask(lambda client: client.zrem(self._counted, *keys))
        if keys is not None and all(self._unlink(key) for key in (*keys, listed)) and user_id is not None:
            return []
        minutes = f"{self._settings.ttl_minutes:g} minutes"
        return [f"what Redis kept because it failed during a deletion expires within {minutes}"]

    def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _key(self, key: SessionKey) -> str:
        return f"{self._settings.key_prefix}conversation:{{{digest(key.caller_id, key.session_id).hex()}}}"

    def _user_key(self, caller_id: str, user_id: str | None) -> str:
        whose = digest(caller_id, *(() if user_id is None else (user_id,)))
        return f"{self._settings.key_prefix}user_conversations:{{{whose.hex()}}}"


def _field(key: SessionKey) -> str:
    return "current" if key.branch is None else str(key.branch)


class CachedSummaries(SqlSummaries):
    """The summaries of a `CachedStore`."""

    def __init__(self, database: Database, *, clock: Callable[[], datetime], tails: RedisTails) -> None:
        super().__init__(database, clock=clock)
        self._tails = tails

    def state(
        self, key: SessionKey, *, limit: int, after: int = 0, outlines: int = 0, view: bool = True
    ) -> SessionState:
        """See `SummaryStore.state`."""
        self._tails.check()
        if not 0 < limit <= _MOST_READ or after or outlines or not view:
            return super().state(key, limit=limit, after=after, outlines=outlines, view=view)
        tail, expected = self._tails.read(key)
        state = None
        if tail is not None:
            state = tail.completed(super().state(key, limit=limit, after=tail.last - 1), limit)
        self._tails.observer.count("redis.misses" if state is None else "redis.hits")
        if state is None:
            tail, state = None, super().state(key, limit=limit)
        newest = Tail.of(state, limit)
        if newest is not None and expected is not None and (tail is None or newest.replaces(tail, limit)):
            self._tails.write(key, newest, expected)
        return state


class CachedTraces(SqlTraces):
    """The traces of a user in a `CachedStore`."""

    def __init__(
        self, database: Database, caller_id: str, user_id: str | None, archive: SqlArchive, *, tails: RedisTails
    ) -> None:
        super().__init__(database, caller_id, user_id, archive)
        self._erase = partial(tails.erase, caller_id, user_id)

    def clean(self) -> list[str]:
        """See `Traces.clean`."""
        return [*super().clean(), *self._erase()]


class CachedStore(SqlStore):
    """A `SqlStore` whose conversations' newest messages are cached in Redis, encrypted if there is a cipher."""

    def __init__(
        self,
        url: str | Engine,
        *,
        redis: RedisSettings,
        observer: Observer | None = None,
        clock: Callable[[], datetime] | None = None,
        settings: StorageSettings | None = None,
        cipher: Cipher | None = None,
        archive: ArchiveSettings | None = None,
    ) -> None:
        self._tails = RedisTails(redis, guarded_observer(observer), cipher)
        super().__init__(url, clock=clock, settings=settings, cipher=cipher, archive=archive)
        if isinstance(self.engine.pool, StaticPool):
            raise ConfigurationError(
                f"redis.url: a cache needs a database that processes share, and {url} is in this one's memory; set "
                "storage.mode to 'sql' to use it without a cache"
            )
        self.summaries = CachedSummaries(self._database, clock=self._clock, tails=self._tails)

    def problems(self) -> Mapping[str, str]:
        """See `Degradable.problems`."""
        return self._tails.problems()

    def traces(self, caller_id: str, user_id: str | None) -> SqlTraces:
        """See `Store.traces`."""
        return CachedTraces(self._database, caller_id, user_id, self._archive, tails=self._tails)

    def append(self, key: SessionKey, messages: Sequence[CountedMessage], **options: Any) -> list[StoredMessage]:
        """See `ConversationStore.append`."""
        stored = super().append(key, messages, **options)
        if any(one.edited for one in stored):
            self._tails.drop(key)
        elif 0 < len(stored) <= _MOST_READ and all(one.seq == stored[0].seq + n for n, one in enumerate(stored)):
            self._tails.append(key, stored)
        return stored

    def read(self, key: SessionKey, **options: Any) -> list[StoredMessage]:
        """See `ConversationStore.read`."""
        self._tails.check()
        return super().read(key, **options)

    def remove(self, key: SessionKey, message_ids: Sequence[str]) -> int:
        """See `ConversationStore.remove`."""
        removed = super().remove(key, message_ids)
        self._tails.drop(key)
        return removed

    def delete(self, key: SessionKey, **options: Any) -> int | None:
        """See `ConversationStore.delete`."""
        deleted = super().delete(key, **options)
        self._tails.forget(key)
        return deleted

    def archive(self, key: SessionKey, *, idle: Idle | None = None) -> bool:
        """See `Store.archive`."""
        archived = super().archive(key, idle=idle)
        if archived:
            self._tails.drop(key)
        return archived

    def branch(self, key: SessionKey, action: BranchAction, **options: Any) -> list[Branch]:
        """See `ConversationStore.branch`."""
        branches = super().branch(key, action, **options)
        if action == "delete":
            self._tails.drop(key)
        return branches

    def close(self) -> None:
        """See `ConversationStore.close`."""
        super().close()
        self._tails.close()
