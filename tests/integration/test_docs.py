"""The examples on the pages in docs/ run."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))

RUN = """
import sys
sys.path.insert(0, sys.argv[1])
import json, os, tempfile, traceback, warnings
warnings.simplefilter("error")
from pydantic.warnings import PydanticDeprecationWarning
warnings.simplefilter("ignore", PydanticDeprecationWarning)  # LlamaIndex's dispatcher looks at every attribute
told = {}
for page, blocks in json.loads(sys.argv[2]).items():
    names = {"__name__": "__main__"}
    os.chdir(tempfile.mkdtemp(dir=sys.argv[3]))
    try:
        for line, program in blocks:
            exec(compile("\\n" * line + program, page, "exec"), names)
    except BaseException:
        told[page] = traceback.format_exc()
print("\\f" + json.dumps(told), flush=True)
os._exit(0)  # at an ordinary end, an engine that a page leaves open first waits 5 s for more reads
"""
"""Runs each page's blocks in its own namespace and empty folder; a traceback names the page's line."""


def blocks(page: str) -> list[tuple[int, str]]:
    """Return each Python block of a page with the number of lines before it."""
    found = re.finditer(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    return [(page.count("\n", 0, block.start(1)), block[1]) for block in found]


def run(pages: dict[str, str], folder: Path) -> tuple[dict[str, str], str]:
    """Run the pages in one process, which imports the frameworks once; return errors by page, and stderr."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("ARC_", "PYTHON"))}
    programs = json.dumps({name: blocks(page) for name, page in pages.items()})
    command = [sys.executable, "-I", "-c", RUN, str(ROOT), programs, str(folder)]
    ran = subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    failed: dict[str, str] = json.loads(ran.stdout.rpartition("\f")[2])
    return failed, ran.stderr


def test_every_page_runs(tmp_path: Path) -> None:
    """Each page has at least one block; its blocks run in order in one namespace, without a warning."""
    pages = {page.name: page.read_text("utf-8") for page in PAGES}
    assert pages
    assert all(map(blocks, pages.values()))
    failed, errors = run(pages, tmp_path)
    assert not failed, "\n".join(failed.values())
    assert "Warning" not in errors


def test_what_is_wrong_on_a_page_is_noticed(tmp_path: Path) -> None:
    """The runner reports errors and warnings, starts in an empty folder, and shares no names between pages."""
    second = {
        "fine": ("print(known)", ""),
        "statement": ("assert known == 2", 'statement", line 8'),
        "warning": ("import warnings\nwarnings.warn('old', DeprecationWarning)", "DeprecationWarning"),
        "folder": ("import os\nassert os.listdir()", "AssertionError"),
    }
    pages = {
        name: f"# Page\n\n```python\nknown = 1\n```\n\n```python\n{code}\n```\n" for name, (code, _) in second.items()
    }
    failed, _ = run({**pages, "other": "```python\nprint(known)\n```\n"}, tmp_path)
    assert failed.keys() == {"statement", "warning", "folder", "other"}
    assert all(error in failed.get(name, "") for name, (_, error) in second.items())
    assert "NameError" in failed["other"]
