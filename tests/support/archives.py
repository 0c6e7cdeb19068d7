"""Archives for tests: a file system with a callback before each step, a disk that fills up, and their contents."""

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem

from tests.support.databases import rows


class CallingFiles(LocalFileSystem):
    """A file system at `calling://`, like one that an application registers; it calls `before` with each step's name.

    If `before` returns a number, only so many bytes of the object are stored and no error is raised: a truncated
    upload. At a removal, a number means that the object stays.
    """

    protocol = "calling"
    before: ClassVar[Callable[[str], int | None]] = lambda _: None

    @classmethod
    def _strip_protocol(cls, path: str) -> Any:
        return super()._strip_protocol(path.removeprefix("calling://"))

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> Any:
        most = type(self).before("write")
        self.makedirs(self._parent(path), exist_ok=True)
        super().pipe_file(path, value if most is None else value[:most], mode=mode, **options)

    def cat_file(self, path: str, start: Any = None, end: Any = None, **options: Any) -> Any:
        type(self).before("read")
        return super().cat_file(path, start, end, **options)

    def rm_file(self, path: str) -> Any:
        return super().rm_file(path) if type(self).before("remove") is None else None


fsspec.register_implementation("calling", CallingFiles)


@contextmanager
def calling(before: Callable[[str], int | None]) -> Iterator[None]:
    """Call a function before each step on `calling://` within the block."""
    CallingFiles.before = before
    try:
        yield
    finally:
        CallingFiles.before = lambda _: None


@contextmanager
def small_disk(kilobytes: int) -> Iterator[Path]:
    """Mount a disk of this size, or skip the test if that is not allowed."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", folder]
        try:
            subprocess.run(command, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("mounting a small disk needs root on Linux")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True)


def fill(disk: Path, *, leave: int = 0) -> Path:
    """Fill a disk with a file except for some bytes, and return the file."""
    filler = disk / "filler"
    free = os.statvfs(disk)
    with suppress(OSError):  # other processes write to the disk, too
        filler.write_bytes(b"x" * max(0, free.f_bavail * free.f_frsize - leave))
    return filler


def objects(folder: Path) -> list[str]:
    """Return the names of the objects in an archive."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def status(database: str) -> tuple[str, int]:
    """Return the status of the only session, and the number of its messages in the database."""
    ((found,),) = rows(database, "SELECT status FROM arc_conversations")
    return found, rows(database, "SELECT count(*) FROM arc_messages")[0][0]


def status_of(database: str, session: str) -> str:
    """Return the status of a session."""
    return str(rows(database, "SELECT status FROM arc_conversations WHERE session_id = :id", id=session)[0][0])
