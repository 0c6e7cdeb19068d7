"""Opens the store that a URL names. A new kind of store is chosen here."""

import logging
from collections.abc import Callable
from datetime import datetime

from sqlalchemy import Engine

from arc_common.exceptions import ConfigurationError
from arc_common.observability import Observer
from arc_common.protocols import Cipher
from arc_common.protocols.conversations import Store
from arc_common.settings import ArcSettings
from arc_common.stores.conversations import SqlStore
from arc_common.stores.database.encryption import cipher_of
from arc_common.stores.redis_cache import CachedStore

_log = logging.getLogger("arc.engine")

_SQLITE_THREADS = 4


def open_store(
    url: str | Engine | None,
    settings: ArcSettings,
    clock: Callable[[], datetime],
    observer: Observer,
    cipher: Cipher | None = None,
) -> tuple[Store, int]:
    """Return the store that the URL or the settings name, and the number of threads that serve async calls to it."""
    address = url if url is not None else settings.resolved_database_url
    storage, archive = settings.storage, settings.archive
    cipher = cipher or cipher_of(storage)
    if archive.enabled and archive.location is None:
        raise ConfigurationError(
            "archive.enabled (ARC_ARCHIVE__ENABLED): got True, which needs archive.url (ARC_ARCHIVE__URL) or "
            "archive.s3_bucket (ARCHIVE_S3_BUCKET), and neither is set"
        )
    if address is None:
        _log.info("no database URL: conversations are kept in memory and end with the process")
        most = storage.max_sessions_in_memory
        store = SqlStore(clock=clock, settings=storage, max_sessions=most, cipher=cipher, archive=archive)
        return store, _SQLITE_THREADS
    if settings.caches_in_redis:
        redis = settings.redis
        store = CachedStore(
            address, redis=redis, observer=observer, clock=clock, settings=storage, cipher=cipher, archive=archive
        )
    else:
        store = SqlStore(address, clock=clock, settings=storage, cipher=cipher, archive=archive)
    return store, _SQLITE_THREADS if store.engine.dialect.name == "sqlite" else storage.pool_size
