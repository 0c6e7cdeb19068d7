"""The `arc` command."""

import io
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from arc_common._version import __version__
from arc_common.exceptions import ArcError, ConfigurationError, hide_password

_HELP = "Arc decides what a language model gets to see on each turn."

app = typer.Typer(help=_HELP, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
db = typer.Typer(help="The database.", no_args_is_help=True)
app.add_typer(db, name="db")


def main() -> None:
    """Run the command. Exit code 1 and one message for an error of arc's own, 2 for wrong usage, 130 for Ctrl-C."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # characters outside an old console's encoding are shown as "?"
    try:
        app(prog_name="arc")
    except ArcError as error:
        Console(stderr=True).print(Text.assemble(("arc: ", "bold red"), str(error)), soft_wrap=True)
        sys.exit(1)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"arc {__version__}")
        raise typer.Exit


@app.callback()
def _arc(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    pass


_arc.__doc__ = _HELP


@app.command()
def demo(
    *,
    file: Annotated[Path, typer.Option(help="The SQLite file that the conversation is kept in.")] = Path("arc-demo.db"),
    restart: Annotated[bool, typer.Option("--restart", help="Begin anew instead of going on.")] = False,
    turns: Annotated[int | None, typer.Option(min=1, help="Stop after this many turns; the next run goes on.")] = None,
    local: Annotated[bool, typer.Option("--local", help="Use the local model, although a key is set.")] = False,
    model: Annotated[
        str | None,
        typer.Option(metavar="PROVIDER:NAME", help="A real model; its provider's key must be in the environment."),
    ] = None,
    fast: Annotated[
        bool | None,
        typer.Option(
            "--fast/--slow", help="Show only some turns (the default), or every turn, with a pause to read it."
        ),
    ] = None,
) -> None:
    """Play one conversation through two frameworks, beside a sliding window and beside sending everything."""
    from arc_common.cli.demo.command import run_demo  # noqa: PLC0415 - see above

    console = Console()
    try:
        run_demo(console, file=file, restart=restart, turns=turns, local=local, model=model, fast=fast)
    except KeyboardInterrupt:
        console.print("Stopped; run the same command to go on.", highlight=False)
        raise typer.Exit(130) from None


@app.command()
def settings() -> None:
    """List every setting: its name, its environment variables, its value, and what it is for."""
    from arc_common.settings import ArcSettings, describe_settings  # noqa: PLC0415 - see above

    current = ArcSettings()
    table = Table(box=None, padding=(0, 2, 1, 0), header_style="bold")
    table.add_column("setting, environment variables", no_wrap=True)
    table.add_column("value, meaning")
    for setting in describe_settings():
        value: object = current
        for name in setting.name.split("."):
            value = getattr(value, name)
        about = Text(_word(value), "bold")
        if value != setting.default:
            about = Text.assemble((_word(value), "bold yellow"), (f"  default: {_word(setting.default)}", "dim"))
        about.append_text(Text.assemble(f"\n{setting.description}", (f"\n{setting.allowed}", "dim")))
        names = Text.assemble((setting.name, "bold"), *((f"\n{name}", "dim") for name in setting.environment_names))
        table.add_row(names, about)
    Console().print(table)


def _word(value: object) -> str:
    if value is None:
        return "none"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


@app.command()
def inspect(
    session: Annotated[str, typer.Argument(help="The session's id.", show_default=False)],
    *,
    turn: Annotated[int | None, typer.Option(help="Which user message, from 1; without it the newest.")] = None,
    url: Annotated[str | None, typer.Option(help="A SQLAlchemy address. Without it, ARC_DATABASE_URL.")] = None,
    caller: Annotated[str, typer.Option(help="Whose session it is.")] = "default",
    user: Annotated[str | None, typer.Option(help="The user that the session is bound to.")] = None,
    tokens: Annotated[
        int | None, typer.Option(min=1, help="What the request may cost; without it, the settings' budget.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Show every text, and not only the first words of some.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object; with --full also the messages.")] = False,
) -> None:
    """Show what the model would be shown for a turn of a stored session, and what was left out."""
    from arc_common.cli.inspect import inspect_session  # noqa: PLC0415 - see above

    inspect_session(
        Console(),
        session,
        turn=turn,
        url=url,
        caller_id=caller,
        user_id=user,
        tokens=tokens,
        full=full,
        as_json=json,
    )


@db.command()
def upgrade(
    url: Annotated[
        str | None, typer.Argument(help="A SQLAlchemy address. Without it, ARC_DATABASE_URL.", show_default=False)
    ] = None,
) -> None:
    """Make the database's tables, or bring them up to date."""
    from arc_common.settings import ArcSettings  # noqa: PLC0415 - see above
    from arc_common.stores import migrate  # noqa: PLC0415 - see above
    from arc_common.stores.connection import connect  # noqa: PLC0415 - see above

    address = url or ArcSettings().resolved_database_url
    if address is None:
        raise ConfigurationError("no database: give its address, or set ARC_DATABASE_URL (sqlite:///arc.db)")
    engine, _ = connect(address)
    try:
        before = migrate.current_revision(engine)
        migrate.upgrade(engine)
        after = migrate.current_revision(engine)
    finally:
        engine.dispose()
    change = "already" if before == after else f"upgraded from {before}, now" if before else "created,"
    shown = hide_password(engine.url.render_as_string(hide_password=False))
    typer.echo(f"{shown}: {change} at revision {after}")
