"""Runs of `arc demo`: in this process or in another, and over an arc session without a framework."""

import os
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import TextIO

import pytest

from arc_common.cli.commands import main
from arc_common.cli.demo import RECORDS, SESSION, Ask, DemoRun, Half, Script, Stage, TurnRecord, support_script
from arc_common.engine.context_engine import ContextEngine
from arc_common.exceptions import ConfigurationError
from arc_common.messages import Message
from arc_common.protocols import ChatModel
from arc_common.testing import ScriptedChatModel

script = support_script()


@contextmanager
def play(stage: Stage) -> Iterator[Ask]:
    with ContextEngine.open(stage.url, settings=stage.settings) as engine:
        session = engine.session(stage.session_id)

        def ask(text: str) -> str:
            session.summarize()
            window = session.context(text, system_prompt=stage.system_prompt)
            answer = stage.model.complete(window.messages)
            session.save_turn(text, answer)
            return answer

        yield ask


def no_model(provider: str, name: str) -> ChatModel:
    raise ConfigurationError(f"no {provider} here for {name}")


FIRST = Half("First", "arc's session", play=play, model=no_model)
SECOND = Half("Second", "arc's session again", play=play, model=no_model)


@contextmanager
def opened(url: str, halves: Sequence[Half] = (FIRST, SECOND), script: Script = script) -> Iterator[DemoRun]:
    run = DemoRun(url, script, halves, ScriptedChatModel(), "local")
    try:
        yield run
    finally:
        run.close()


def played(
    url: str, turns: int | None = None, halves: Sequence[Half] = (FIRST, SECOND), script: Script = script
) -> list[TurnRecord]:
    with opened(url, halves, script) as run:
        return list(islice(run.play(), turns))


KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY")


def environment(**variables: str) -> dict[str, str]:
    """Return this process's environment without API keys and arc's settings, with the given variables."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ARC_") and name not in KEYS}
    path = os.pathsep.join(filter(None, [variables.get("PYTHONPATH"), kept.get("PYTHONPATH")]))
    return {**kept, "COLUMNS": "110", **variables, "PYTHONPATH": path}


@dataclass(frozen=True)
class Ran:
    """The output and exit code of a run."""

    code: int
    out: str
    err: str


def here(
    folder: Path,
    *words: str,
    command: str = "demo",
    encoding: str = "utf-8",
    out: TextIO | None = None,
    **variables: str,
) -> Ran:
    """Run the command in this process, which has already imported the frameworks; importing both takes three seconds.

    The output goes to `out`, or is returned.
    """
    kept, err = (TextIOWrapper(BytesIO(), encoding) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out or kept), redirect_stderr(err):
        for name in {*os.environ} - {*environment()}:
            patch.delenv(name)
        for name, value in {"COLUMNS": "110", **variables}.items():
            patch.setenv(name, value)
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["arc", command, *words])
        try:
            main()
            code: object = 0
        except SystemExit as ended:
            code = ended.code or 0
        printed = []
        for stream in (kept, err):
            stream.seek(0)
            printed.append(stream.read())
    return Ran(int(str(code)), *printed)


def stored(folder: Path, session: str = SESSION) -> list[Message]:
    """Return the messages of a session in the database that the command writes."""
    with ContextEngine.open(f"sqlite:///{folder}/arc-demo.db") as engine:
        return engine.session(session, caller_id=session if session == RECORDS else "default").messages()


def spoken(folder: Path) -> list[tuple[str, str]]:
    return [(message.role.value, message.text) for message in stored(folder)]


def module(folder: Path, name: str, text: str) -> str:
    """Write a module that shadows the installed one of that name; return the PYTHONPATH that it needs."""
    folder.joinpath(f"{name}.py").write_text(textwrap.dedent(text))
    return str(folder)


PROVIDER = """
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    class ChatOpenAI(BaseChatModel):
        model: str

        @property
        def _llm_type(self):
            return "test"

        def _generate(self, messages, stop=None, run_manager=None, **kwargs):
            {body}
            text = f"{{self.model}} was shown {{len(messages)}} messages"
            return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])
    """
"""The source of a provider's package; `body` runs before each answer."""
