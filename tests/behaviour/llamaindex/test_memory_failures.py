"""`ArcChatMemoryBuffer` where its store fails or it is used wrongly: the reply goes on, nothing is lost or doubled."""

import logging
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine

from arc_common.engine.context_engine import ContextEngine
from arc_common.exceptions import InvalidInputError, SessionNotFoundError, StoreError, StoreUnavailableError
from arc_common.settings import ArcSettings
from llamaindex_arc import open_engine
from tests.support.databases import sqlite_url
from tests.support.llamaindex_helpers import (
    Both,
    assistant,
    break_writes,
    forms,
    memory_over,
    mend_writes,
    said,
    turns,
    user,
)


def test_set_that_is_cut_short_loses_nothing(tmp_path: Path) -> None:
    """When the store fails halfway through `set`, everything old is still there."""
    database = tmp_path / "c.db"
    with open_engine(f"sqlite:///{database}") as engine:
        memory = memory_over(engine)
        memory.put_messages(turns(2))
        break_writes(database)
        with pytest.raises(StoreError, match="disk full"):
            memory.set([user("instead")])
        assert memory.get_all() == turns(2)


@forms
def test_a_put_that_fails_does_not_break_the_reply(
    tmp_path: Path, through_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The message is reported, shown to the model nevertheless, and stored once by the next put that succeeds."""
    database = tmp_path / "c.db"
    reported: list[tuple[Exception, list[str]]] = []
    with open_engine(
        f"sqlite:///{database}",
        on_save_error=lambda error, messages: reported.append((error, [message.text for message in messages])),
    ) as engine:
        memory = Both(memory_over(engine), through_async=through_async)
        memory.put_messages(turns(1))
        break_writes(database)
        with caplog.at_level(logging.CRITICAL):
            memory.put(user("q1"))
            memory.put(assistant("a1"))
        assert [texts for _, texts in reported] == [["q1"], ["q1", "a1"]]
        assert said(memory.get()) == said(memory.get_all()) == ["q0", "a0", "q1", "a1"]
        assert memory_over(engine).get_all() == turns(1)
        mend_writes(database)
        memory.put(user("q2"))
        assert said(memory_over(engine).get_all()) == ["q0", "a0", "q1", "a1", "q2"]
        memory.put(assistant("a2"))
        assert said(memory_over(engine).get_all()) == ["q0", "a0", "q1", "a1", "q2", "a2"]


class UnsureConnection(sqlite3.Connection):
    """Commits, and then says that it could not, as a connection does that breaks in between."""

    unsure = False

    def commit(self) -> None:
        super().commit()
        self._break()

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        cursor = super().execute(sql, *parameters)
        if sql == "COMMIT":
            self._break()
        return cursor

    def _break(self) -> None:
        if UnsureConnection.unsure:
            raise sqlite3.OperationalError("disk I/O error")


@forms
def test_a_message_that_was_stored_after_all_is_not_stored_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, through_async: bool
) -> None:
    """When nobody knows whether a put went through, trying again does no harm."""
    reported: list[Exception] = []
    database = create_engine(f"sqlite:///{tmp_path / 'c.db'}", connect_args={"factory": UnsureConnection})
    settings = ArcSettings(summary={"enabled": False}, recall={"enabled": False})
    with open_engine(database, settings=settings, on_save_error=lambda error, _: reported.append(error)) as engine:
        memory = Both(memory_over(engine), through_async=through_async)
        assert memory.get_all() == []
        with monkeypatch.context() as patch:
            patch.setattr(UnsureConnection, "unsure", True)
            memory.put(user("q"))
        assert len(reported) == 1
        assert said(memory_over(engine).get_all()) == ["q"]
        memory.put(assistant("a"))
        assert said(memory.get_all()) == ["q", "a"]
    database.dispose()


@pytest.mark.parametrize("forget", ["reset", "set"])
def test_what_could_not_be_stored_is_forgotten_with_the_rest(tmp_path: Path, forget: str) -> None:
    """`reset` and `set` also take away what waits to be stored."""
    database = tmp_path / "c.db"
    with open_engine(f"sqlite:///{database}") as engine:
        memory = memory_over(engine)
        memory.put(user("q0"))
        break_writes(database)
        memory.put(user("lost"))
        mend_writes(database)
        memory.reset() if forget == "reset" else memory.set([user("q0")])
        memory.put(user("next"))
        assert said(memory.get_all()) == (["next"] if forget == "reset" else ["q0", "next"])


def test_reads_raise_when_the_store_can_not_be_read(tmp_path: Path) -> None:
    """A conversation that can't be read is not taken for an empty one."""
    (tmp_path / "c.db").write_text("this is no database, and long enough to be seen as none " * 50)
    with open_engine(sqlite_url(tmp_path, "c.db")) as engine:
        memory = memory_over(engine)
        for read in (memory.get, memory.get_all, memory.to_dict):
            with pytest.raises(StoreUnavailableError):
                read()


@forms
def test_wrong_use_raises(engine: ContextEngine, through_async: bool) -> None:
    """What is no message is refused by `put` too, and so is somebody else's session."""
    memory = Both(memory_over(engine, user_id="ann"), through_async=through_async)
    with pytest.raises(InvalidInputError, match="message"):
        memory.put("text")
    with pytest.raises(InvalidInputError, match="initial_token_count"):
        memory.get(initial_token_count=-1)
    memory.put(user("private"))
    stranger = Both(memory_over(engine, user_id="bob"), through_async=through_async)
    for call, arguments in ((stranger.get, ()), (stranger.get_all, ()), (stranger.put, (user("hi"),))):
        with pytest.raises(SessionNotFoundError):
            call(*arguments)
