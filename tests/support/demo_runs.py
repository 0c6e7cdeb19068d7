"""Runs of the demo whose halves need no framework: arc's own session."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

from arc_common.cli.demo.run import Ask, DemoRun, Half, Script, Stage, TurnRecord, support_script
from arc_common.engine.context_engine import ContextEngine
from arc_common.exceptions import ConfigurationError
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
