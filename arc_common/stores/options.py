"""How a database is connected to and treated."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["SqlOptions"]


@dataclass(frozen=True, slots=True)
class SqlOptions:
    """The knobs of SQL storage. Those of the pool apply to PostgreSQL only, and not to an `Engine` that was passed in.

    Args:
        pool_size: Connections to PostgreSQL.
        pool_timeout_seconds: The longest wait for a free connection to PostgreSQL; SQLite files have no limit.
        connect_timeout_seconds: The longest wait for a database server.
        busy_timeout_seconds: The longest wait for another SQLite writer (with eight writers 2 s were seen).
        synchronous: SQLite's mode: "full" has each commit on the disk, "normal" may lose the last ones with the power.
        secure_delete: Whether SQLite overwrites what is deleted.
        index_cache_bytes: What the index over SQLite keeps in memory (see `SqlIndexStore`).
        index_graph_from: From how many vectors on PostgreSQL's index walks a graph (see `SqlIndexStore`).
    """

    pool_size: int = 16
    pool_timeout_seconds: float = 30.0
    connect_timeout_seconds: float = 10.0
    busy_timeout_seconds: float = 30.0
    synchronous: Literal["full", "normal"] = "full"
    secure_delete: bool = True
    index_cache_bytes: int = 2**30
    index_graph_from: int = 5_000
