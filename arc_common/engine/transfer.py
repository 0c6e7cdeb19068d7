"""Exports everything of a caller or a user to a file, and imports it into another database."""

import gzip
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from arc_common.exceptions import ArcError, InvalidInputError

if TYPE_CHECKING:
    from arc_common.engine.runtime import Runtime

Progress = Callable[[int], None]
"""Called after each step with the number of lines so far."""


def export(runtime: "Runtime", path: str | Path, caller_id: str, user_id: str | None, progress: Progress | None) -> int:
    """Write a file: see `Admin.export`."""
    target = _checked(path, progress)
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
    source = _checked(path, progress)
    if not source.is_file():
        raise InvalidInputError("path", str(path), "a file that `export` has written")
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
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                what = f"line {number} of {source.name}"
                raise InvalidInputError(what, line[:80], "a line that `export` has written") from error
            if progress is not None:
                progress(number)
    return stored


def _checked(path: object, progress: object) -> Path:
    if progress is not None and not callable(progress):
        raise InvalidInputError("progress", progress, "a function that takes the number of lines, or None")
    if not isinstance(path, str | Path) or not str(path) or "\0" in str(path):
        raise InvalidInputError("path", path, "the path of a file")
    try:
        os.fsencode(path)
    except UnicodeError:
        raise InvalidInputError("path", path, "the path of a file") from None
    return Path(path)


@contextmanager
def _opened(path: Path, mode: str, *, packed: bool) -> Iterator[TextIO]:
    opened: Any = gzip.open if packed else open
    with opened(path, mode, encoding="utf-8") as file:
        yield file
