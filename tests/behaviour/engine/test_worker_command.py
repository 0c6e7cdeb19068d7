"""`arc worker`: engine, output, and stopping."""

import os
import signal
import time
from pathlib import Path

import pytest

from arc_common import ContextEngine
from tests.behaviour.engine.test_commands import Arc, arc
from tests.support.databases import rows, sqlite_url
from tests.support.forks import Fork
from tests.support.summaries import settings_with, turn

__all__ = ["arc"]

APPLICATION = """
from arc_common import ContextEngine

class Model:
    def complete(self, messages):
        return '{"facts": [], "narrative": "The model told it."}'

def engine():
    return ContextEngine.open("sqlite:///arc.db", chat_model=Model())

count = 3
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Store three sessions without derived data."""
    url = sqlite_url(tmp_path)
    with ContextEngine.open(url, settings=settings_with(background={"in_process": False})) as engine:
        for number in range(3):
            engine.session(f"s{number}").append([message for at in range(20) for message in turn(at)])
    return url


def makers(url: str) -> set[str]:
    return {made_by for (made_by,) in rows(url, "SELECT DISTINCT made_by FROM arc_segments WHERE level = 0")}


def test_until_idle(arc: Arc, url: str) -> None:
    """It does all work, by rules without an engine, and prints how much."""
    assert arc("worker", "--url", url, "--until-idle", "--threads", "2") == (0, "3 sessions worked on\n", "")
    assert makers(url) == {"rules"}
    assert arc("worker", "--url", url, "--until-idle") == (0, "0 sessions worked on\n", "")


def test_once(arc: Arc, url: str) -> None:
    assert arc("worker", "--url", url, "--once") == (0, "1 session worked on\n", "")
    assert len(rows(url, "SELECT DISTINCT conversation FROM arc_segments")) == 1


def test_it_works_with_the_models_of_an_engine(arc: Arc, url: str, tmp_path: Path) -> None:
    (tmp_path / "application_one.py").write_text(APPLICATION)
    assert arc("worker", "--engine", "application_one:engine", "--until-idle")[:2] == (0, "3 sessions worked on\n")
    assert makers(url) == {"model"}


@pytest.mark.parametrize(
    ("engine", "said"),
    {
        "no module": ("nowhere:engine", "expected an importable module:name (No module named 'nowhere')"),
        "no name": ("application_two", "gave module, expected a ContextEngine"),
        "no such name": ("application_two:other", "has no attribute 'other'"),
        "not an engine": ("application_two:count", "gave int, expected a ContextEngine, or a function without"),
    }.values(),
)
def test_a_wrong_engine_is_named(arc: Arc, tmp_path: Path, engine: str, said: str) -> None:
    (tmp_path / "application_two.py").write_text(APPLICATION)
    code, _, err = arc("worker", "--engine", engine)
    assert code == 1
    assert "arc: engine: " in err
    assert said in err


def test_a_model_in_the_settings_needs_an_engine(arc: Arc, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise rules would write what the model should."""
    monkeypatch.setenv("ARC_SUMMARY__LLM_MODEL", "openai:some")
    code, _, err = arc("worker", "--url", url, "--until-idle")
    assert code == 1
    assert "summary.llm_model: got 'openai:some'" in err
    assert "pass --engine" in err


class Letters:
    name = "letters"

    def embed(self, texts: list[str]) -> list[list[float]]:
        return [[1.0, float(len(text))] for text in texts]


EMBEDDING = """
from pathlib import Path
from arc_common import ContextEngine

class Others:
    name = "others"

    def embed(self, texts):
        if Path("down").exists():
            raise OSError("down")
        return [[1.0, 2.0, float(len(text))] for text in texts]

def engine():
    return ContextEngine.open("sqlite:///arc.db", embedder=Others())
"""


def test_reembed(arc: Arc, tmp_path: Path) -> None:
    """It prints the result; if not all is done, the exit code is 1 and the output says what to do."""
    (tmp_path / "application_three.py").write_text(EMBEDDING)
    url = sqlite_url(tmp_path)
    with ContextEngine.open(url, embedder=Letters()) as engine:
        engine.documents.add([f"Text {number}." for number in range(100)])
    (tmp_path / "down").touch()
    code, out, _ = arc("reembed", "application_three:engine")
    assert (code, out) == (1, "0 vectors in 0 scopes, 1 scope not complete: run the command again\n")
    (tmp_path / "down").unlink()
    assert arc("reembed", "application_three:engine")[:2] == (0, "100 vectors in 1 scope\n")
    assert rows(url, "SELECT embedder, vectors FROM arc_index_scopes") == [("others", 100)]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it(tmp_path: Path, url: str, how: signal.Signals) -> None:
    """It waits for work until then, and leaves no lease."""
    with Fork(tmp_path, ["worker", "--url", url], os.environ) as process:
        deadline = time.monotonic() + 30
        while rows(url, "SELECT count(*) FROM arc_conversations WHERE work_due_at IS NOT NULL") != [(0,)]:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(how)
        assert (process.wait(), process.stdout.read()) == (0, "3 sessions worked on\n")
    assert rows(url, "SELECT count(*) FROM arc_conversations WHERE lease_owner IS NOT NULL") == [(0,)]
