"""The `arc` command."""

import io
import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from importlib.metadata import entry_points
from json import dumps
from pathlib import Path
from pkgutil import resolve_name
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from arc_common import __version__
from arc_common.cli import database
from arc_common.context.display import counted, excerpt, render_terminal
from arc_common.engine.context_engine import ContextEngine
from arc_common.exceptions import ArcError, ConfigurationError, MissingDependencyError, StoreError, hide_password
from arc_common.messages import plain_fields

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from arc_common.engine.admin import SessionDebug
    from arc_common.engine.importers import Imported
    from arc_common.engine.replay import ReplayedTurn
    from arc_common.server import Token

_HELP = "Memory for LangChain and LlamaIndex that fits the context window. Begin with: arc demo"
_EXPLORE, _SERVE, _DATA = "Explore", "Serve", "Data"

app = typer.Typer(help=_HELP, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.add_typer(database.app, name="db", rich_help_panel=_DATA)


def main() -> None:
    """Run the command. Exit code 1 and one message for an error of arc's own, 2 for wrong usage, 130 for Ctrl-C."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # characters outside an old console's encoding are shown as "?"
    try:
        app(prog_name="arc")
    except ArcError as error:
        _show_error(error)
        sys.exit(1)


def _show_error(error: ArcError) -> None:
    Console(stderr=True).print(Text.assemble(("arc: ", "bold red"), str(error)), soft_wrap=True)


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


@app.command(rich_help_panel=_EXPLORE)
def demo(
    *,
    file: Annotated[Path, typer.Option(help="The SQLite file of the conversation.")] = Path("arc-demo.db"),
    restart: Annotated[bool, typer.Option("--restart", help="Start over.")] = False,
    turns: Annotated[
        int | None, typer.Option(min=1, help="Stop after this many turns; run it again to continue.")
    ] = None,
    local: Annotated[bool, typer.Option("--local", help="Use the local model even if a key is set.")] = False,
    model: Annotated[
        str | None,
        typer.Option(metavar="PROVIDER:NAME", help="A real model; its provider's key must be in the environment."),
    ] = None,
    slow: Annotated[bool, typer.Option("--slow", help="Show every turn, with a pause to read it.")] = False,
) -> None:
    """Play one conversation through two frameworks; compare arc with a sliding window and with sending everything."""
    from arc_common.cli.demo_display import run_demo  # noqa: PLC0415 - only for this command

    console = Console()
    try:
        run_demo(console, file=file, restart=restart, turns=turns, local=local, model=model, slow=slow)
    except KeyboardInterrupt:
        console.print("Stopped; run the same command to continue.", highlight=False)
        raise typer.Exit(130) from None


@app.command(rich_help_panel=_EXPLORE)
def settings() -> None:
    """List every setting: its name, environment variables, value and meaning."""
    from arc_common.settings import ArcSettings, describe_settings  # noqa: PLC0415 - `arc --help` comes at once

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


Url = Annotated[str | None, typer.Option(help="A SQLAlchemy URL; by default ARC_DATABASE_URL.")]


@app.command(rich_help_panel=_EXPLORE)
def inspect(
    session: Annotated[str, typer.Argument(help="The session's id.", show_default=False)],
    *,
    turn: Annotated[
        int | None, typer.Option(help="The number of the user message, from 1; by default the newest.")
    ] = None,
    url: Url = None,
    caller: Annotated[str, typer.Option(help="The caller that owns the session.")] = "default",
    user: Annotated[str | None, typer.Option(help="The user that the session is bound to.")] = None,
    tokens: Annotated[
        int | None, typer.Option(min=1, help="The most tokens of the request; by default the settings' budget.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Show every text in full.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object; with --full also the messages.")] = False,
) -> None:
    """Show what the model saw on a turn of a stored session, and what was left out."""
    console = Console()
    with _opened(url) as engine:
        debug = engine.admin.debug(session, caller_id=caller, user_id=user)
        budget = None if tokens is None else replace(engine.budget, context_window=tokens, output_reserve=0)
        shown = engine.admin.replay(session, turn, budget=budget, caller_id=caller, user_id=user)
    if json:
        text = dumps(_as_json(debug, shown, full=full), indent=2, default=str)
        console.print(Text(text), soft_wrap=True)
        return
    console.print(_headline(debug, shown))
    console.print()
    console.print(render_terminal(shown.window, full=full))


@app.command(rich_help_panel=_DATA)
def export(
    file: Annotated[Path, typer.Argument(help='The file to write; compressed if its name ends in ".gz".')],
    *,
    caller: Annotated[str, typer.Option(help="The caller to export.")] = "default",
    user: Annotated[
        str | None, typer.Option(help="Only the data of this user; by default all of the caller's.")
    ] = None,
    url: Url = None,
) -> None:
    """Write all data of a caller, or of one of its users, to a file."""
    with _opened(url) as engine, _progress("exported") as advance:
        lines = engine.admin.export(file, caller_id=caller, user_id=user, progress=advance)
    typer.echo(f"{file}: {counted(lines, 'line')}")


@app.command(rich_help_panel=_DATA)
def maintain(
    *,
    every: Annotated[
        str | None, typer.Option(help="Run again at this interval, such as 30m or 12h.", metavar="TIME")
    ] = None,
    url: Url = None,
) -> None:
    """Archive or delete idle sessions, as the settings say."""
    seconds, stop = None if every is None else _seconds(every), Event()
    with _opened(url) as engine, _stop_on_signals(stop):
        while True:
            try:
                with _progress("maintained", of="sessions") as advance:
                    done = engine.admin.maintain(progress=advance)
                typer.echo(str(done))
            except StoreError as error:
                if seconds is None:
                    raise
                _show_error(error)
            if seconds is None or stop.wait(seconds):
                return


@app.command(rich_help_panel=_DATA)
def archive(
    *,
    older_than: Annotated[
        str | None, typer.Option(help="The time since a session was last used, such as 12h or 30d.", metavar="TIME")
    ] = None,
    url: Url = None,
) -> None:
    """Archive all sessions that nobody has used for a time; by default, for `archive.after_days`."""
    age = None if older_than is None else timedelta(seconds=_seconds(older_than))
    with _opened(url) as engine, _progress("archived", of="sessions") as advance:
        done = engine.admin.archive(older_than=age, progress=advance)
    typer.echo(str(done))


@app.command(rich_help_panel=_DATA)
def restore(
    session: Annotated[str, typer.Argument(help="The session's id.")],
    *,
    caller: Annotated[str, typer.Option(help="The caller that owns the session.")] = "default",
    user: Annotated[str | None, typer.Option(help="The user that the session is bound to.")] = None,
    url: Url = None,
) -> None:
    """Bring back a session that was archived or softly deleted."""
    with _opened(url) as engine:
        restored = engine.admin.restore(session, caller_id=caller, user_id=user)
    typer.echo(f"{session}: {'restored' if restored else 'was neither archived nor deleted'}")


_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def _seconds(text: str) -> float:
    """Return the seconds of a time such as 60m."""
    found = re.fullmatch(r"([0-9]{1,6})([smhd])", text.strip())
    if found is None or not int(found[1]):
        raise typer.BadParameter(f"got {text!r}, expected a number with s, m, h or d, such as 60m")
    return int(found[1]) * _UNITS[found[2]]


@app.command(name="import", rich_help_panel=_DATA)
def import_(
    source: Annotated[str, typer.Argument(help="A file that `arc export` wrote; with --from, another library's data.")],
    *,
    kind: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="The library that wrote the source: langchain (the URL of SQLChatMessageHistory's database), "
            "llamaindex (that of Memory's), simple-chat-store (its file) or mem0 (a JSON file).",
        ),
    ] = None,
    caller: Annotated[str | None, typer.Option(help="With --from: the caller that will own the data.")] = None,
    user: Annotated[str | None, typer.Option(help="With --from: the user who will own the data.")] = None,
    url: Url = None,
) -> None:
    """Import a file that `arc export` wrote, or another library's data; existing data stay unchanged."""
    from arc_common.settings import ArcSettings  # noqa: PLC0415 - the same

    given = source if kind is None else _reader(kind)(source)
    settings = ArcSettings(summary={"llm_model": None})
    address = database.address_of(url, settings)
    with ContextEngine.open(address, settings=settings) as engine, _progress("read") as advance:
        stored = engine.admin.import_(given, caller_id=caller, user_id=user, progress=advance)
        engine.flush()
    shown = hide_password(source)
    typer.echo(f"{shown}: {counted(stored, 'line' if kind is None else 'item')} stored")


def _reader(kind: str) -> "Callable[[str], Iterable[Imported]]":
    """Return the reader for another library's data; each adapter provides those of its framework."""
    from arc_common.cli.demo import GROUP  # noqa: PLC0415 - the same
    from arc_common.engine.importers import mem0_memories  # noqa: PLC0415 - the same

    readers: dict[str, Callable[[str], Iterable[Imported]]] = {"mem0": mem0_memories}
    for entry in entry_points(group=GROUP):
        with suppress(MissingDependencyError):
            readers |= import_module(f"{entry.module.partition('.')[0]}.importers").READERS
    if kind not in readers:
        expected = f"one of {', '.join(sorted(readers))}"
        raise ConfigurationError(f"--from: got {kind!r}, expected {expected} (those of the installed frameworks)")
    return readers[kind]


EngineName = Annotated[
    str | None,
    typer.Option(metavar="MODULE:NAME", help="A ContextEngine with your models, or a function that returns one."),
]


@app.command(rich_help_panel=_SERVE)
def worker(
    *,
    url: Url = None,
    engine: EngineName = None,
    threads: Annotated[int, typer.Option(min=1, help="The number of sessions to work on at once.")] = 1,
    until_idle: Annotated[bool, typer.Option("--until-idle", help="Stop once no work is left.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Work on one session, if any has work, and stop.")] = False,
) -> None:
    """Do the background work of all sessions: summaries, recall index, long-term memories."""
    stop = Event()
    with (
        _named_engine(url, engine) as opened,
        _stop_on_signals(stop),
        _progress("worked on", of="sessions") as advance,
    ):
        done = opened.admin.work(
            threads=threads, until_idle=until_idle or once, limit=1 if once else None, progress=advance, stop=stop
        )
    failed = f", {done.failed:,} failed and due again in a minute" if done.failed else ""
    typer.echo(f"{counted(done.sessions, 'session')} worked on{failed}")
    if done.failed:
        raise typer.Exit(1)


TokensFile = Annotated[Path | None, typer.Option(help="The JSON file of tokens; by default ARC_SERVER__TOKENS_FILE.")]
Host = Annotated[str, typer.Option(help="The address to listen on.")]


@app.command(rich_help_panel=_SERVE)
def serve(
    *,
    url: Url = None,
    engine: EngineName = None,
    tokens: TokensFile = None,
    host: Host = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; 0 for any free one.")] = 8000,
    anonymous: Annotated[bool, typer.Option("--anonymous", help="Serve this machine only, without tokens.")] = False,
    demo: Annotated[
        bool,
        typer.Option("--demo", help="Serve the demo's conversation to this machine, after playing it if necessary."),
    ] = False,
) -> None:
    """Serve the REST API, which is described at /openapi.json, and the inspector's pages."""
    from arc_common.server import create_app  # noqa: PLC0415 - the same

    anonymous = anonymous or demo
    with _played_demo(url) if demo else _named_engine(url, engine) as opened:
        listed = [] if demo else _tokens(opened, tokens)
        app_ = create_app(opened, listed, anonymous=anonymous)
        _listen(app_, host, port, anonymous=anonymous, told="pages", path="/inspector")


@app.command(rich_help_panel=_SERVE)
def mcp(
    *,
    url: Url = None,
    engine: EngineName = None,
    tokens: TokensFile = None,
    anonymous: Annotated[bool, typer.Option("--anonymous", help="Serve this machine only, without tokens.")] = False,
    user: Annotated[
        str | None, typer.Option(help="The one user that the client acts for; by default the token's.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Serve HTTP here, with a token in each request; 0: any free port."),
    ] = None,
    host: Host = "127.0.0.1",
) -> None:
    """Serve memories, documents and contexts to a model's client (MCP), on standard input and output or by HTTP."""
    import asyncio  # noqa: PLC0415 - the same

    from arc_common.server.access import Access, Guard  # noqa: PLC0415 - the same
    from arc_common.server.mcp import mcp_app, mcp_server, serve_stdio  # noqa: PLC0415 - the same

    with _named_engine(url, engine) as opened:
        listed = _tokens(opened, tokens)
        if port is not None:
            if user is not None:
                raise ConfigurationError("--user: not allowed with --port: by HTTP, token or client name the user")
            app_ = mcp_app(opened, listed, anonymous=anonymous)
            _listen(app_, host, port, anonymous=anonymous, told="MCP", path="/mcp")
            return
        guard, secret = Guard(opened, listed, anonymous=anonymous), opened.settings.server.mcp_token
        if listed and secret is None:
            raise ConfigurationError("server.mcp_token: got None, expected a token of the file (ARC_SERVER__MCP_TOKEN)")
        acting = guard.token(secret.get_secret_value() if secret else "")
        acting = replace(acting, user_id=Access(opened, acting).user(user))
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # otherwise Ctrl-C waits for the thread that reads standard input
        asyncio.run(serve_stdio(mcp_server(opened, acting)))


def _tokens(engine: ContextEngine, file: Path | None) -> "list[Token]":
    from arc_common.server import load_tokens  # noqa: PLC0415 - the same

    found = file or engine.settings.server.tokens_file
    return load_tokens(found) if found else []


def _listen(app_: "ASGIApp", host: str, port: int, *, anonymous: bool, told: str, path: str) -> None:
    """Serve an application until the process is ended."""
    try:
        import uvicorn  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        raise MissingDependencyError("arc serve", package="uvicorn", extra="server") from error
    from arc_common.server.access import LOOPBACK  # noqa: PLC0415 - the same

    if anonymous and host not in LOOPBACK:
        raise ConfigurationError(f"--host: got {host!r} with --anonymous, expected one of {', '.join(LOOPBACK)}")
    config = uvicorn.Config(app_, host=host, port=port, log_level="warning", access_log=False)
    listening = config.bind_socket()
    listening.listen()  # from here on clients wait for an answer instead of being refused
    at = f"[{host}]" if ":" in host else host
    address = f"http://{at}:{listening.getsockname()[1]}"
    typer.echo(f"listening on {address}, {told} at {address}{path}", err=True)
    uvicorn.Server(config).run(sockets=[listening])


def _played_demo(url: str | None) -> ContextEngine:
    """Play the demo to its end, and open its database as the demo does."""
    from arc_common.cli.demo import demo_settings  # noqa: PLC0415 - the same
    from arc_common.cli.demo_display import run_demo  # noqa: PLC0415 - the same

    if url is not None:
        raise ConfigurationError("--url: not allowed with --demo, which has a database of its own")
    file = Path("arc-demo.db")
    run_demo(Console(stderr=True), file=file, restart=False, turns=None, local=True, model=None, slow=False)
    return ContextEngine.open(f"sqlite:///{file.resolve()}", settings=demo_settings())


@app.command(rich_help_panel=_DATA)
def reembed(
    engine: Annotated[
        str, typer.Argument(metavar="MODULE:NAME", help="A ContextEngine, or a function that returns one.")
    ],
) -> None:
    """Embed all stored texts again with the engine's embedder, after you have changed it."""
    stop = Event()
    with _imported(engine) as opened, _stop_on_signals(stop), _progress("made", of="vectors") as advance:
        made = opened.admin.reembed(progress=advance, stop=stop)
    rest = f", {counted(made.unfinished, 'scope')} not complete: run the command again" if made.unfinished else ""
    typer.echo(f"{counted(made.vectors, 'vector')} in {counted(made.scopes, 'scope')}{rest}")
    if made.unfinished:
        raise typer.Exit(1)


def _named_engine(url: str | None, engine: str | None) -> ContextEngine:
    """Import the engine, or open one without models."""
    from arc_common.settings import ArcSettings  # noqa: PLC0415 - the same

    if engine is None:
        settings = ArcSettings()
        if settings.summary.enabled and settings.summary.llm_model is not None:
            raise ConfigurationError(
                f"summary.llm_model: got {settings.summary.llm_model!r}, but this command can't create models: pass "
                "--engine module:function, where the function returns open_engine(...)"
            )
        return ContextEngine.open(database.address_of(url, settings), settings=settings)
    if url is not None:
        raise ConfigurationError("--url: not allowed with --engine, which has a database of its own")
    return _imported(engine)


def _imported(name: str) -> ContextEngine:
    sys.path.insert(0, str(Path.cwd()))  # as `python -m` does
    try:
        found: Any = resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(f"engine: got {name!r}, expected an importable module:name ({error})") from error
    made = found if isinstance(found, ContextEngine) else found() if callable(found) else found
    if not isinstance(made, ContextEngine):
        expected = "a ContextEngine, or a function without arguments that returns one"
        raise ConfigurationError(f"engine: {name!r} gave {type(made).__name__}, expected {expected}")
    return made


@contextmanager
def _stop_on_signals(stop: "Event") -> "Iterator[None]":
    """Set the event at the first SIGTERM or Ctrl-C; a second one ends the process at once."""

    def handle(number: int, _: Any) -> None:
        signal.signal(number, before[signal.Signals(number)])
        stop.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _progress(done: str, *, of: str = "lines") -> "Iterator[Callable[[int], None]]":
    """Show the number of things done so far on a terminal."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415 - the same

    columns = SpinnerColumn(), TextColumn(f"{{task.completed:,}} {of} {done}"), TimeElapsedColumn()
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task("")
        yield lambda count: shown.update(task, completed=count)


_NAME_CHARACTERS = 80


def _opened(url: str | None) -> ContextEngine:
    """Open an engine on an existing database, without creating tables."""
    from sqlalchemy import make_url  # noqa: PLC0415 - the same

    from arc_common.settings import ArcSettings  # noqa: PLC0415 - the same

    settings = ArcSettings(storage={"auto_migrate": False}, summary={"llm_model": None})  # inspecting calls no model
    address = database.address_of(url, settings)
    engine = ContextEngine.open(address, settings=settings)
    parsed = make_url(address)
    file = parsed.database if parsed.get_backend_name() == "sqlite" else None
    if file and file != ":memory:" and not file.startswith("file:") and not Path(file).is_file():
        engine.close()
        raise ConfigurationError(f"database URL: there is no file {file!r}; name one that arc has written to")
    return engine


def _headline(debug: "SessionDebug", shown: "ReplayedTurn") -> Text:
    record, summary = debug.conversation, debug.summary
    owners = {"caller": None if record.key.caller_id == "default" else record.key.caller_id, "user": record.key.user_id}
    whose = ", ".join(f"{kind} {excerpt(name, _NAME_CHARACTERS)}" for kind, name in owners.items() if name)
    counts = [counted(record.message_count, "message"), counted(record.total_tokens, "token")]
    if record.tool_calls_count:
        counts.append(counted(record.tool_calls_count, "tool call"))
    last = f" to {record.last_message_at:%Y-%m-%d %H:%M}" if record.last_message_at else ""
    written = "no summary yet"
    if summary is not None:
        written = (
            f"summary of {counted(summary.summarized_up_to, 'message')}, {counted(len(summary.facts), 'fact')}, "
            f"{counted(summary.pending, 'message')} not summarised"
        )
    return Text.assemble(
        ("session ", "dim"),
        (excerpt(record.key.session_id, _NAME_CHARACTERS), "bold"),
        (f"  {whose}\n" if whose else "\n", "dim"),
        f"{', '.join(counts)}, from {record.created_at:%Y-%m-%d %H:%M}{last} UTC\n{written}\n",
        ("turn ", "dim"),
        (f"{shown.number:,}", "bold"),
        (f" of {shown.count:,}: what the model is shown before it answers", "dim"),
    )


def _as_json(debug: "SessionDebug", shown: "ReplayedTurn", *, full: bool) -> dict[str, Any]:
    receipt = shown.window.receipt.to_dict()
    session = {name: value for name, value in debug.to_dict().items() if name != "receipt"}
    found = {"session": session, "turn": shown.number, "turns": shown.count, "receipt": receipt}
    if full:
        said = [replace(one, origin=None) for one in shown.window.messages]
        found["messages"] = [{"role": one.role.value, "id": one.id, **plain_fields(one)} for one in said]
    return found
