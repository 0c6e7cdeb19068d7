"""The README's examples run with only the packages that it says to install."""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from itertools import groupby
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PACKAGES = ("arc_common", "langchain_arc", "llamaindex_arc")

RUN = """
import sys
sys.path.insert(0, sys.argv[1])
import json, warnings
warnings.simplefilter("error")
from pydantic.warnings import PydanticDeprecationWarning
warnings.simplefilter("ignore", PydanticDeprecationWarning)  # LlamaIndex's dispatcher looks at every attribute
for arguments, program in json.loads(sys.argv[2]):
    sys.argv = ["arc", *arguments]
    try:
        exec(program, {"__name__": "__main__"})
    except SystemExit as ended:
        if ended.code:
            raise
    print("\\f")
"""
"""Runs programs in order; a form feed ends the output of each."""


@dataclass(frozen=True)
class Example:
    """One Python block or `arc` command, with the extras of the installation above it and the output shown below it."""

    text: str
    is_python: bool
    extras: tuple[str, ...]
    output: str | None = None


def examples() -> Iterator[Example]:
    extras: tuple[str, ...] | None = None
    found = re.findall(r"^```(python|console)\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", README, re.MULTILINE | re.DOTALL)
    for kind, block, output in found:
        if kind == "python":
            assert extras is not None, f"nothing is installed for:\n{block}"
            yield Example(block, True, extras, output or None)
            continue
        for line in block.splitlines():
            command = line.removeprefix("$ ")
            if installed := re.fullmatch(r"pip install '?\.(?:\[([\w,]+)\])?'?", command):
                extras = tuple((installed[1] or "").split(",")) if installed[1] else ()
            elif command.startswith("arc "):
                assert extras is not None
                yield Example(command, False, extras)


def needed(extras: tuple[str, ...]) -> dict[str, Distribution]:
    """Return the distributions that pip would install for arc with these extras, by name."""
    found: dict[str, Distribution] = {}
    waiting = [Requirement(one) for one in PROJECT["dependencies"]]
    waiting += [Requirement(one) for extra in extras for one in PROJECT["optional-dependencies"][extra]]
    seen = set()
    while waiting:
        wanted = waiting.pop()
        if wanted.name == PROJECT["name"]:
            own = [one for extra in wanted.extras for one in PROJECT["optional-dependencies"][extra]]
            waiting += map(Requirement, own)
            continue
        if (wanted.name, frozenset(wanted.extras)) in seen:
            continue
        seen.add((wanted.name, frozenset(wanted.extras)))
        found[wanted.name] = distribution(wanted.name)
        for text in found[wanted.name].requires or ():
            requirement = Requirement(text)
            if any(
                requirement.marker is None or requirement.marker.evaluate({"extra": extra})
                for extra in ("", *wanted.extras)
            ):
                waiting.append(requirement)
    return found


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[tuple[str, ...]], Path]:
    """Return a function that links arc, the extras' packages and no others into a folder, without asking a registry."""
    known: dict[tuple[str, ...], Path] = {}

    def make(extras: tuple[str, ...]) -> Path:
        if extras not in known:
            folder = known[extras] = tmp_path_factory.mktemp("site")
            for package in PACKAGES:
                (folder / package).symlink_to(ROOT / package)
            for found in needed(extras).values():
                for file in found.files or ():
                    link = folder / file
                    if ".." not in file.parts and not link.exists():
                        link.parent.mkdir(parents=True, exist_ok=True)
                        link.symlink_to(Path(str(found.locate_file(file))))
        return known[extras]

    return make


def run(programs: list[Example], site: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the examples in order in the folder; they can import only the site's packages, and warnings are errors."""
    steps = [
        ([], one.text)
        if one.is_python
        else (shlex.split(one.text)[1:], "from arc_common.cli.commands import main; main()")
        for one in programs
    ]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("ARC_", "PYTHON"))}
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", RUN, str(site), json.dumps(steps)],
        cwd=folder,
        env=clean,
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_example_runs_with_what_is_installed_for_it(
    tmp_path: Path, installed: Callable[[tuple[str, ...]], Path]
) -> None:
    """They run in the README's order in an empty folder without a warning, and print the README's results."""
    shown = 0
    for extras, group in groupby(examples(), key=lambda example: example.extras):
        programs = list(group)
        ran = run(programs, installed(extras), tmp_path)
        assert ran.returncode == 0, f"{programs}\n{ran.stdout}\n{ran.stderr}"
        assert ran.stderr == "", programs
        for example, output in zip(programs, ran.stdout.split("\f"), strict=False):
            if example.output is not None:
                assert comparable(output) == comparable(example.output)
                shown += 1
            elif not example.is_python:
                assert "session support-1" in output
                assert "My order number is HN-48213" in output
    assert shown == 3


def comparable(text: str) -> str:
    """Return the text with the same day everywhere, and without a window's counts, which any prompt text changes."""
    same_day = re.sub(r"\d{4}-\d\d-\d\d", "2026-11-27", text.strip())
    return re.sub(r"<ContextWindow .*>", lambda found: re.sub(r"\d+", "n", found[0]), same_day)


def test_what_is_not_installed_is_not_found(tmp_path: Path, installed: Callable[[tuple[str, ...]], Path]) -> None:
    """The examples can't import other packages; otherwise the test above would prove nothing."""
    absent = {(): ("langchain_core", "llama_index.core"), ("langchain",): ("langchain",), ("agents",): ("pytest",)}
    for extras, modules in absent.items():
        for module in modules:
            program = f"try:\n    import {module}\nexcept ModuleNotFoundError:\n    print('absent')"
            ran = run([Example(program, True, extras)], installed(extras), tmp_path)
            assert ran.stdout.startswith("absent"), module


def test_a_deprecated_class_of_langchain_would_be_noticed(
    tmp_path: Path, installed: Callable[[tuple[str, ...]], Path]
) -> None:
    """Warnings are errors in the examples."""
    program = "from langchain_core.runnables import RunnableWithMessageHistory as R; R(lambda x: x, lambda: None)"
    ran = run([Example(program, True, ("langchain",))], installed(("langchain",)), tmp_path)
    assert "LangChainDeprecationWarning" in ran.stderr


def test_set_up_is_two_commands() -> None:
    """They are `make demo` and `make test`; all other commands begin with `pip install` or `arc`."""
    consoles = re.findall(r"^```console\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    commands = [line[2:].split("#")[0].strip() for block in consoles for line in block.splitlines()]
    assert [command for command in commands if not command.startswith(("pip install ", "arc "))] == [
        "make demo",
        "make test",
    ]


def test_every_installation_names_extras_that_there_are() -> None:
    """This covers the table and the commands before the examples."""
    named = {extra for found in re.findall(r"'\.\[([\w,]+)\]'", README) for extra in found.split(",")}
    assert named >= {"agents", "langchain", "llamaindex"}
    assert named <= set(PROJECT["optional-dependencies"])
