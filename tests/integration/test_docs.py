"""The examples on the pages in docs/ run, and print what the pages show."""

import json
import os
import re
import sys
import tempfile
import traceback
import warnings
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from pydantic.warnings import PydanticDeprecationWarning

from tests.support.forks import Fork

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))


def blocks(page: str) -> list[tuple[int, str, str | None]]:
    """Return each Python block of a page with the number of lines before it, and the output shown below it, if any."""
    found = re.finditer(r"^```python\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", page, re.MULTILINE | re.DOTALL)
    return [(page.count("\n", 0, block.start(1)), block[1], block[2]) for block in found]


def without_numbers(text: str) -> str:
    """Return the text without its numbers: any change to a prompt's text changes counts of tokens."""
    return re.sub(r"\d+", "n", text)


def execute(pages: dict[str, str], folder: Path) -> None:
    """Run each page's blocks in its own namespace and empty folder, and print the errors by page, with its lines."""
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", PydanticDeprecationWarning)  # LlamaIndex's dispatcher looks at every attribute
    told = {}
    for name, page in pages.items():
        names = {"__name__": "__main__"}
        os.chdir(tempfile.mkdtemp(dir=folder))
        try:
            for line, program, shown in blocks(page):
                with redirect_stdout(StringIO()) as printed:
                    exec(compile("\n" * line + program, name, "exec"), names)  # noqa: S102 - a page of ours
                assert shown is None or without_numbers(shown) == without_numbers(printed.getvalue()), (
                    printed.getvalue()
                )
        except BaseException:  # noqa: BLE001 - the test shows it
            told[name] = traceback.format_exc()
    sys.stdout.write("\f" + json.dumps(told))


def run(pages: dict[str, str], folder: Path) -> tuple[dict[str, str], str]:
    """Run the pages in a fork, which has imported the frameworks; return errors by page, and stderr."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("ARC_", "PYTHON"))}
    with Fork(folder, [], clean, run=lambda: execute(pages, folder)) as process:
        printed, errors = process.stdout.read(), process.stderr.read()
        assert process.wait() == 0, errors
    failed: dict[str, str] = json.loads(printed.rpartition("\f")[2])
    return failed, errors


def test_every_page_runs(tmp_path: Path) -> None:
    """Each page has at least one block; its blocks run in order in one namespace, without a warning."""
    pages = {page.name: page.read_text("utf-8") for page in PAGES}
    assert pages
    assert all(map(blocks, pages.values()))
    failed, errors = run(pages, tmp_path)
    assert not failed, "\n".join(failed.values())
    assert "Warning" not in errors


def test_what_is_wrong_on_a_page_is_noticed(tmp_path: Path) -> None:
    """The runner reports errors, warnings and other outputs, in an empty folder and with names for each page alone."""
    second = {
        "fine": ("print(known)", ""),
        "statement": ("assert known == 2", 'statement", line 8'),
        "warning": ("import warnings\nwarnings.warn('old', DeprecationWarning)", "DeprecationWarning"),
        "folder": ("import os\nassert os.listdir()", "AssertionError"),
        "output": ("print('one')\n```\n\n```text\ntwo", "AssertionError: one"),
    }
    pages = {
        name: f"# Page\n\n```python\nknown = 1\n```\n\n```python\n{code}\n```\n" for name, (code, _) in second.items()
    }
    failed, _ = run({**pages, "other": "```python\nprint(known)\n```\n"}, tmp_path)
    assert failed.keys() == {"statement", "warning", "folder", "output", "other"}
    assert all(error in failed.get(name, "") for name, (_, error) in second.items())
    assert "NameError" in failed["other"]
