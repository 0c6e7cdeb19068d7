"""LlamaIndex's half of `arc demo`."""

from collections.abc import Iterator
from contextlib import contextmanager

from llama_index.core.chat_engine import SimpleChatEngine

from arc_common.cli.demo import Ask, Half, Stage, model_class
from arc_common.protocols import ChatModel
from llamaindex_arc.engine import open_engine
from llamaindex_arc.memory import ArcChatMemoryBuffer
from llamaindex_arc.models import ArcLLM, LlamaIndexChatModel

_MODELS = {
    "openai": ("llama_index.llms.openai", "OpenAI", "llama-index-llms-openai"),
    "anthropic": ("llama_index.llms.anthropic", "Anthropic", "llama-index-llms-anthropic"),
    "google": ("llama_index.llms.google_genai", "GoogleGenAI", "llama-index-llms-google-genai"),
}


def register(halves: list[Half]) -> None:
    """Add LlamaIndex to the demo."""
    halves.append(Half("LlamaIndex", "SimpleChatEngine with ArcChatMemoryBuffer", play=_play, model=_model))


@contextmanager
def _play(stage: Stage) -> Iterator[Ask]:
    with open_engine(stage.url, settings=stage.settings) as engine:
        chat = SimpleChatEngine.from_defaults(
            llm=ArcLLM(stage.model),
            memory=ArcChatMemoryBuffer.from_defaults(engine=engine, session_id=stage.session_id),
            system_prompt=stage.system_prompt,
        )
        session = engine.session(stage.session_id)

        def ask(text: str) -> str:
            session.summarize()  # normally done in the background; waiting for it makes all runs alike
            return str(chat.chat(text).response)

        yield ask


def _model(provider: str, name: str) -> ChatModel:
    return LlamaIndexChatModel(model_class(*_MODELS[provider])(model=name))
