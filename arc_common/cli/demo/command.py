"""Runs `arc demo`: reads its options, plays the turns, and prints the comparison."""

import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from shlex import quote
from shutil import which

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.text import Text
from sqlalchemy import URL

from arc_common.cli.demo.display import Display
from arc_common.cli.demo.run import SESSION, DemoRun, Half, Missing, find_halves, support_script
from arc_common.exceptions import ConfigurationError, InvalidInputError
from arc_common.protocols import ChatModel
from arc_common.settings.environment import PROVIDERS, provider_with_key
from arc_common.testing import ScriptedChatModel

_PAUSE = 0.8
"""Seconds after a turn when every turn is shown."""

_SHOWN_EVERY = 20
"""Otherwise all questions and one in this many turns are shown."""


@dataclass(frozen=True, slots=True)
class _Cast:
    """The model that answers, its name, and a remark on why it was chosen."""

    model: ChatModel
    name: str
    remark: str


def run_demo(
    console: Console, *, file: Path, restart: bool, turns: int | None, local: bool, model: str | None, fast: bool | None
) -> None:
    """Play the demo from where it stopped, and show the comparison at the end."""
    script = support_script()
    with console.status("starting", spinner="line"):  # importing two frameworks takes seconds
        halves, missing = find_halves()
    if not halves:
        raise ConfigurationError("the demo needs a framework: " + " or ".join(map(_advice, missing)))
    cast = _cast(halves, local=local, wanted=model)
    path = file.expanduser().resolve()
    run = DemoRun(_url(path), script, halves, cast.model, cast.name)
    try:
        if restart:
            run.restart()
        _play(console, run, _rows(path, halves, missing, cast), path=path, stop=turns, show_all=fast is False)
    finally:
        run.close()


def _play(
    console: Console,
    run: DemoRun,
    rows: Sequence[tuple[str, Text]],
    *,
    path: Path,
    stop: int | None,
    show_all: bool,
) -> None:
    display = Display(console, run.script, limit=run.limit)
    records = run.done()
    turns = run.script.turns
    finished = len(records) == len(turns)
    display.title(rows)
    if finished:
        display.note("This conversation is complete; nothing was asked again.")
    elif records:
        display.note(f"Going on after turn {len(records)} of {len(turns)}: the file remembers the rest.")
    with _progress(console) as progress, closing(run.play()) as played:
        task = progress.add_task("turns", total=len(turns), completed=len(records))
        playing = ""
        for record in islice(played, stop):
            if record.framework != playing:
                playing = record.framework
                display.half(playing, _entrance(2 * record.number - 2, path))
            turn = turns[record.number - 1]
            if show_all or turn.question or record.number == 1 or record.number % _SHOWN_EVERY == 0:
                display.turn(turn, record)
            records.append(record)
            progress.advance(task)
            if show_all and console.is_interactive:
                time.sleep(_PAUSE)
    if len(records) < len(turns):
        display.note(f"Stopped after turn {len(records)} of {len(turns)}; run the same command to go on.")
        return
    display.comparison(records)
    arc, shown = _program(), _relative(path)
    file = "" if shown == Path("arc-demo.db") else f" --file {quote(str(shown))}"
    display.closing(
        path,
        len(run.stored()),
        inspect=f"{arc} inspect {SESSION} --url {quote(_url(shown))} --tokens {run.limit}",
        restart=f"{arc} demo --restart{file}",
    )


def _program() -> str:
    """Return the `arc` command to type in this folder, as a path if its environment isn't active."""
    own = which("arc", path=str(Path(sys.executable).parent))
    return "arc" if own is None or which("arc") == own else quote(str(_relative(Path(own))))


def _relative(path: Path) -> Path:
    """Return the path, relative to this folder if it is below it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _entrance(seen: int, path: Path) -> str:
    return f"goes on with the {seen} messages in {path.name}" if seen else f"begins, and writes to {path.name}"


def _cast(halves: Sequence[Half], *, local: bool, wanted: str | None) -> _Cast:
    scripted = ScriptedChatModel()
    name = "local"
    explained = "local, needs no key: it can only quote what it is shown"
    if wanted is not None:
        provider, _, chosen = wanted.partition(":")
        if provider not in {known.name for known in PROVIDERS} or not chosen:
            known = ", ".join(f"{each.name}:{each.model}" for each in PROVIDERS)
            raise InvalidInputError("--model", wanted, f"provider:name, such as {known}")
        return _Cast(_real(halves, provider, chosen), wanted, wanted)
    found = provider_with_key()
    if local or found is None:
        return _Cast(scripted, name, explained)
    real = f"{found.name}:{found.model}"
    try:
        return _Cast(_real(halves, found.name, found.model), real, f"{real}, because a key of {found.name} is set")
    except ConfigurationError as error:
        return _Cast(scripted, name, f"{explained}\na key of {found.name} is set, but {error}")


def _real(halves: Sequence[Half], provider: str, name: str) -> ChatModel:
    """Return the model from the first framework that can reach it."""
    reasons = []
    for half in halves:
        try:
            return half.model(provider, name)
        except ConfigurationError as error:
            reasons.append(str(error))
        except Exception as error:  # noqa: BLE001 - some clients go online at once; their words may show the key
            reasons.append(f"{half.name} can't reach {provider}:{name} ({type(error).__name__})")
    raise ConfigurationError("; or ".join(reasons))


def _rows(path: Path, halves: Sequence[Half], missing: Sequence[Missing], cast: _Cast) -> list[tuple[str, Text]]:
    rows = [
        (order, Text(f"{half.name}: {half.recipe}")) for order, half in zip(("first", "then"), halves, strict=False)
    ]
    rows += [("missing", Text(_advice(each), "yellow")) for each in missing]
    return [
        *rows,
        ("file", Text(str(path))),
        ("model", Text(cast.remark)),
    ]


def _advice(missing: Missing) -> str:
    return f"pip install 'arc-context-engine[{missing.extra}]' ({missing.reason})"


def _url(path: Path) -> str:
    return URL.create("sqlite", database=path.as_posix()).render_as_string()


def _progress(console: Console) -> Progress:
    return Progress(
        SpinnerColumn("line"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
        console=console,
        transient=True,
        disable=not console.is_interactive,
    )
