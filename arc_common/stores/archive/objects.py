"""The objects of an archive, on any file system of fsspec: a folder, S3, memory and others."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from arc_common.exceptions import ArchiveError, ConfigurationError, MissingDependencyError, hide_password, scrubbed

_OWN_FOLDERS = 3
"""The folders of the month, the year and the archive: another process may just have created each."""


def checksum_of(content: bytes) -> str:
    """Return the sha256 of an object's content."""
    return hashlib.sha256(content).hexdigest()


class ArchiveObjects:
    """Writes, reads and removes objects below one address. Opens nothing before the first use."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._opened: tuple[int, Any, str] | None = None
        protocol = url.partition("://")[0] if "://" in url else "file" if url.strip() else ""
        try:
            from fsspec.registry import get_filesystem_class, known_implementations  # noqa: PLC0415 - optional
        except ImportError as error:
            raise MissingDependencyError("the archive", package="fsspec", extra="archive") from error
        try:
            get_filesystem_class(protocol)
        except ImportError as error:
            package = known_implementations[protocol]["class"].partition(".")[0]
            raise MissingDependencyError(
                f"archive.url {hide_password(url)!r}",
                package=f"fsspec[{protocol}]" if package == "fsspec" else package,
                extra="archive" if package == "s3fs" else None,
            ) from error
        except ValueError as error:
            raise ConfigurationError(
                f"archive.url: got {hide_password(url)!r}, expected a path, s3://bucket/folder or another address that "
                "fsspec knows"
            ) from error

    def __repr__(self) -> str:
        return f"ArchiveObjects({hide_password(self._url)!r})"

    def write(self, path: str, content: bytes) -> None:
        """Store an object, and read it back: it is whole and durable on return."""
        with self._using(path, "written") as (files, name):
            if _is_local(files):
                _write_file(Path(name), content)
            else:
                files.pipe_file(name, content)
        if self.read(path) != content:
            raise ArchiveError(f"{path} in {self!r} was not stored completely: its content is not what was written")

    def read(self, path: str) -> bytes:
        """Return an object's content."""
        with self._using(path, "read") as (files, name):
            return bytes(files.cat_file(name))

    def remove(self, path: str) -> None:
        """Remove an object, if it is there."""
        with self._using(path, "removed") as (files, name), suppress(FileNotFoundError):
            if _is_local(files):
                _part(Path(name)).unlink(missing_ok=True)
            files.rm_file(name)

    def exists(self, path: str) -> bool:
        """Return whether an object is there."""
        with self._using(path, "found") as (files, name):
            try:
                files.info(name)  # the `exists` of many file systems says no if they can't be reached
            except FileNotFoundError:
                return False
            return True

    @contextmanager
    def _using(self, path: str, done: str) -> Iterator[tuple[Any, str]]:
        """Yield the file system, which is opened again after a fork, and the object's name on it."""
        try:
            if self._opened is None or self._opened[0] != os.getpid():
                from fsspec.core import url_to_fs  # noqa: PLC0415 - an optional dependency

                files, root = url_to_fs(self._url, skip_instance_cache=True, use_listings_cache=False)
                self._opened = os.getpid(), files, root.rstrip("/")
            _, files, root = self._opened
            yield files, f"{root}/{path}"
        except FileNotFoundError as error:
            raise ArchiveError(f"{path} in {self!r} is missing") from error
        except ArchiveError:
            raise
        except Exception as error:  # each file system has errors of its own
            reason = scrubbed(str(error), self._url) or type(error).__name__
            raise ArchiveError(f"{path} in {self!r} could not be {done}: {reason}") from error


def _is_local(files: Any) -> bool:
    return "file" in (files.protocol if isinstance(files.protocol, tuple) else (files.protocol,))


def _part(path: Path) -> Path:
    """Return the name of a file that is being written; a machine that dies meanwhile leaves it."""
    return path.with_name(f"{path.name}.part")


def _write_file(path: Path, content: bytes) -> None:
    """Write a file at once, so that its name never shows part of it, and wait for the disk."""
    folders = {*path.parents[:_OWN_FOLDERS], *(one.parent for one in path.parents if not one.exists())}
    path.parent.mkdir(parents=True, exist_ok=True)
    part = _part(path)
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    for folder in folders:
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
