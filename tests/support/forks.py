"""Programs in forks of the tests' own process, which has imported everything: a new Python takes one to three seconds.

A fork shares the imported modules, and nothing else: environment, folder, arguments, output and signals are its own.
"""

import os
import re
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from arc_common.cli.commands import main


class Fork:
    """A process like `subprocess.Popen`, which runs a function; it is killed at the end of a `with` block."""

    def __init__(
        self, folder: Path, words: Sequence[str], environment: Mapping[str, str], *, run: Callable[[], object] = main
    ) -> None:
        out, err = os.pipe(), os.pipe()
        self.returncode: int | None = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of threads, which a fork has not
            self.pid = os.fork()
        if not self.pid:
            _run(run, folder, words, environment, out[1], err[1])
        for pipe in (out, err):
            os.close(pipe[1])
        self.stdout, self.stderr = os.fdopen(out[0]), os.fdopen(err[0])

    @property
    def is_running(self) -> bool:
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def wait(self, seconds: float = 30) -> int:
        """Return the exit code, or the negative number of the signal that ended the process."""
        deadline = time.monotonic() + seconds
        while self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
            else:
                assert time.monotonic() < deadline, "the process did not end"
                time.sleep(0.01)
        return self.returncode

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.returncode is None:
            self.send_signal(signal.SIGKILL)
            self.wait()
        self.stdout.close()
        self.stderr.close()


def _run(
    run: Callable[[], object], folder: Path, words: Sequence[str], environment: Mapping[str, str], out: int, err: int
) -> None:
    code: object = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.dup2(out, 1)
        os.dup2(err, 2)
        sys.stdout, sys.stderr = (os.fdopen(fd, "w", buffering=1, encoding="utf-8", closefd=False) for fd in (1, 2))
        given = dict(environment)
        os.environ.clear()
        os.environ.update(given)
        os.chdir(folder)
        sys.argv = ["arc", *words]
        run()
        code = 0
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException:  # noqa: BLE001 - the process ends here with the error in its output
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


@contextmanager
def arc_server(folder: Path, *words: str) -> Iterator[str]:
    """Run `arc serve` or `arc mcp` with these arguments, yield its address, and stop it by SIGTERM."""
    with Fork(folder, [*words, "--port", "0"], os.environ) as server:
        said = []
        while not (found := re.search(r"listening on (http://[^\s,]+)", "".join(said))):
            said.append(server.stderr.readline())
            assert said[-1], said
        yield found[1]
        server.send_signal(signal.SIGTERM)
        assert server.wait() in (0, -signal.SIGTERM)
