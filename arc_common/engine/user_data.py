"""Erases everything of a caller or one of its users, exports it to a file, and imports it into another database."""

import gzip
import json
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from arc_common.caches import drop_texts, forget_texts
from arc_common.exceptions import ArcError, InvalidInputError, check_calls
from arc_common.protocols import Conversation, ConversationFilter, ConversationStatus
from arc_common.protocols.search_index import Scope

if TYPE_CHECKING:
    from arc_common.engine.runtime import Runtime

_PAGE = 100
_SAMPLES = 20
"""Number of conversations whose newest message is looked for in the database's file."""
_WORDS = re.compile(r"[^\W\d_][^\x00-\x1f\x7f\"\\\\]{15,59}")
"""Words of characters that are stored unchanged, long enough to be in nobody else's text."""


@dataclass(frozen=True, slots=True)
class ErasureReceipt:
    """The result of an erasure.

    Args:
        removed: The number of rows removed, by table, and of "archive objects".
        left: The number of rows that still name the caller and user, or belong to no conversation, by table; empty if
            the erasure is complete. If somebody wrote meanwhile, erase again.
        left_in_file: The number of sampled texts, of up to twenty, that a SQLite database's file still has outside any
            row.
        pending: The places that this erasure could not clean, such as backups.
    """

    removed: Mapping[str, int]
    left: Mapping[str, int]
    left_in_file: int
    pending: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """True if nothing was found afterwards. Places named in `pending` are not searched."""
        return not self.left and not self.left_in_file


def erase(runtime: "Runtime", caller_id: str, user_id: str | None) -> ErasureReceipt:
    """Erase a user, or without one a whole caller: see `Admin.erase`."""
    traces = runtime.store.traces(caller_id, user_id)
    removed = traces.owned()
    samples = list(islice(_samples(runtime, caller_id, user_id), _SAMPLES))
    for conversation in conversations_of(runtime, caller_id, user_id):
        runtime.delete_session(conversation.key)
    scope = Scope(caller_id, user_id)
    runtime.store.reviews.erase(scope)
    runtime.receipt_log.forget(scope, whole=True)
    runtime.store.records.erase(scope)
    runtime.store.index.remove(scope, None, None)
    drop_texts(partial(runtime.long_term.keeper.drop, scope))
    forget_texts()
    pending = [*traces.clean(), "other processes' caches until they restart, logs, and backups of the database"]
    return ErasureReceipt(removed, traces.left(), traces.found_in_file(samples), tuple(pending))


def conversations_of(runtime: "Runtime", caller_id: str, user_id: str | None) -> Iterator[Conversation]:
    """Yield the conversations of any status page by page; each may be deleted before the next is read."""
    for status in ConversationStatus:
        cursor = None
        while True:
            which = ConversationFilter(status)
            page = runtime.store.page(caller_id, user_id=user_id, limit=_PAGE, cursor=cursor, which=which)
            yield from page.conversations
            if (cursor := page.next_cursor) is None:
                break


def _samples(runtime: "Runtime", caller_id: str, user_id: str | None) -> Iterator[str]:
    """Yield some words of the newest message of each conversation."""
    for conversation in conversations_of(runtime, caller_id, user_id):
        if conversation.status is not ConversationStatus.ACTIVE:
            continue
        for stored in runtime.store.read(conversation.key, limit=1):
            if words := _WORDS.search(stored.message.text):
                yield words[0]


Progress = Callable[[int], None]
"""Called after each step with the number of lines so far."""


def export(runtime: "Runtime", path: str | Path, caller_id: str, user_id: str | None, progress: Progress | None) -> int:
    """Write a file: see `Admin.export`."""
    target = _checked("path", path, progress)
    part = target.with_name(f"{target.name}.part")
    count = 0
    with _opened(part, "wt", packed=target.suffix == ".gz") as file:
        for count, record in enumerate(runtime.store.dump(caller_id, user_id), start=1):
            file.write(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n")
            if progress is not None:
                progress(count)
    part.replace(target)
    return count


def load(runtime: "Runtime", path: str | Path, progress: Progress | None) -> int:
    """Read a file: see `Admin.import_`."""
    source = _checked("source", path, progress)
    if not os.path.isfile(source):  # noqa: PTH113 - `Path.is_file` raises for a name that is too long
        raise InvalidInputError("source", str(path), "a file that `export` has written")
    stored = 0
    with _opened(source, "rt", packed=source.suffix == ".gz") as file:
        for number, line in enumerate(file, start=1):
            try:
                record = json.loads(line)
                if number == 1 and "arc" not in record:
                    raise ValueError("the first line names no version")  # noqa: TRY301 - reported as below
                stored += runtime.store.load(record)
            except ArcError:
                raise
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
                what = f"line {number} of {source.name}"
                raise InvalidInputError(what, line[:80], "a line that `export` has written") from error
            if progress is not None:
                progress(number)
    return stored


def _checked(field: str, path: object, progress: object) -> Path:
    check_calls(progress)
    if not isinstance(path, str | Path) or not str(path) or "\0" in str(path):
        raise InvalidInputError(field, path, "the path of a file")
    try:
        os.fsencode(path)
    except UnicodeError:
        raise InvalidInputError(field, path, "the path of a file") from None
    return Path(path)


@contextmanager
def _opened(path: Path, mode: str, *, packed: bool) -> Iterator[TextIO]:
    opened: Any = gzip.open if packed else open
    try:
        with opened(path, mode, encoding="utf-8") as file:
            yield file
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:  # no permission, a full disk, a broken file
        raise InvalidInputError("path", str(path), f"a file that can be used: {error}") from error
