"""LangChain's half of `arc demo`."""

from collections.abc import Iterator
from contextlib import contextmanager

from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate

from arc_common.cli.demo import Ask, Half, Stage, model_class
from arc_common.protocols import ChatModel
from langchain_arc.chains import with_arc_memory
from langchain_arc.engine import open_engine
from langchain_arc.models import ArcChatModel, LangChainChatModel

_MODELS = {
    "openai": ("langchain_openai", "ChatOpenAI", "langchain-openai"),
    "anthropic": ("langchain_anthropic", "ChatAnthropic", "langchain-anthropic"),
    "google": ("langchain_google_genai", "ChatGoogleGenerativeAI", "langchain-google-genai"),
}


def register(halves: list[Half]) -> None:
    """Add LangChain to the demo."""
    halves.append(Half("LangChain", "with_arc_memory(prompt | model, engine)", play=_play, model=_model))


@contextmanager
def _play(stage: Stage) -> Iterator[Ask]:
    prompt = ChatPromptTemplate(
        [("system", "{system}"), ("placeholder", "{history}"), ("human", "{question}")]
    ).partial(system=stage.system_prompt)
    with open_engine(stage.url, settings=stage.settings) as engine:
        chain = with_arc_memory(
            prompt | ArcChatModel(chat_model=stage.model) | StrOutputParser(),
            engine,
            input_messages_key="question",
            history_messages_key="history",
        )
        session = engine.session(stage.session_id)

        def ask(text: str) -> str:
            session.summarize()  # normally done in the background; waiting for it makes all runs alike
            return str(chain.invoke({"question": text}, {"configurable": {"session_id": stage.session_id}}))

        yield ask


def _model(provider: str, name: str) -> ChatModel:
    return LangChainChatModel(model_class(*_MODELS[provider])(model=name))
