"""`arc serve` in a process of its own, on a real port."""

import importlib.util
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import httpx
import pytest

from arc_common import ContextEngine
from tests.support.databases import sqlite_url

ROOT = Path(__file__).parents[2]
SECRET = "a-token-of-the-shop"


@contextmanager
def serving(folder: Path, *words: str) -> Iterator[str]:
    """The address of a server, and its end by SIGTERM."""
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from arc_common.cli.commands import main; main()"
    command = [sys.executable, "-c", program, "serve", "--port", "0", *words]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr
            said = next((line for line in process.stderr if "listening" in line), "")
            found = re.search(r"http://\S+:\d+", said)
            assert found, said
            yield found[0]
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) in (0, -signal.SIGTERM)


@pytest.mark.parametrize("words", [("--tokens", "tokens.json"), ()], ids=["option", "tokens_file"])
def test_serve_takes_its_tokens_from_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """Named by an option or a setting; what is written through it is durable, and it ends at SIGTERM."""
    url = sqlite_url(tmp_path)
    (tmp_path / "tokens.json").write_text(json.dumps([{"token": SECRET, "caller": "shop", "role": "writer"}]))
    if not words:
        monkeypatch.setenv("ARC_SERVER__TOKENS_FILE", "tokens.json")
    with serving(tmp_path, "--url", url, *words) as address:
        assert httpx.get(f"{address}/readyz").json() == {"status": "ok"}
        assert httpx.get(f"{address}/api/sessions").status_code == 401
        body = {"messages": [{"role": "user", "content": "Hello"}]}
        headers = {"Authorization": f"Bearer {SECRET}"}
        assert httpx.post(f"{address}/api/sessions/s/messages", json=body, headers=headers).status_code == 201
    with ContextEngine.open(url) as engine:
        assert [one.text for one in engine.session("s", caller_id="shop").messages()] == ["Hello"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "no token is configured"),
        (("--anonymous", "--host", "192.0.2.1"), "--host: got '192.0.2.1' with --anonymous"),
        (("--tokens", "missing.json"), "missing.json"),
    ],
)
def test_it_refuses_to_serve_without_tokens(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    """Except to this machine, if that is asked for."""
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from arc_common.cli.commands import main; main()"
    command = [sys.executable, "-c", program, "serve", "--url", sqlite_url(tmp_path), *words]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.fixture(scope="module")
def comparing() -> ModuleType:
    """`benchmarks/server_latency.py`."""
    spec = importlib.util.spec_from_file_location("server_latency", ROOT / "benchmarks" / "server_latency.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["server_latency"] = module
    spec.loader.exec_module(module)
    return module


def test_reads_take_little_longer_than_a_bare_route(comparing: ModuleType, tmp_path: Path) -> None:
    """Fifty clients at once, in one run: no errors, and the slowest in a hundred at most three times as slow."""
    taken = comparing.run(f"sqlite:///{tmp_path / 'arc.db'}", clients=50, seconds=60, most=20)
    assert taken.errors == 0
    assert sum(map(len, taken.seconds.values())) == 50 * 20
    assert taken.percentile("arc", 0.99) <= 3 * taken.percentile("bare", 0.99)
