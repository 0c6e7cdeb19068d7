"""A half of the demo that needs no framework: arc's own session."""

from collections.abc import Iterator
from contextlib import contextmanager

from arc_common.demo.halves import Ask, Half, Stage
from arc_common.engine import ContextEngine
from arc_common.exceptions import ConfigurationError
from arc_common.protocols import ChatModel


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
