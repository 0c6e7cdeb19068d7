"""Query transformers: turn the user's question into search queries."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from arc_common.documents import checked_items
from arc_common.exceptions import InvalidInputError
from arc_common.messages import Message
from arc_common.model_calls import GuardedChatModel
from arc_common.observability import Observer, SilentObserver
from arc_common.prompts.retrieval import (
    parse_hypothetical_answer,
    parse_standalone_question,
    render_hypothetical_answer_request,
    render_standalone_question_request,
)
from arc_common.protocols import ChatModel
from arc_common.text.languages.coreference import is_standalone, last_turns, topic_words

if TYPE_CHECKING:
    from arc_common.settings import ArcSettings


class HyDEQueryTransformer:
    """Adds a hypothetical answer to the question as a second query (HyDE, Gao et al. 2022).

    - A model writes the answer. The answer need not be true: it only serves to find real passages and is never shown.
    - Returns the question alone if the model fails, refuses or returns nothing. This is counted as `hyde.fallbacks`,
      in addition to the counts of `GuardedChatModel` under `hyde`.
    - Makes one model call per question, none for an empty one.

    Args:
        chat_model: The model. A `GuardedChatModel` is used as it is, so that several users share its breaker.
        settings: The settings (`model_calls`).
        observer: Receives counts.
    """

    def __init__(
        self, chat_model: ChatModel, *, settings: "ArcSettings | None" = None, observer: Observer | None = None
    ) -> None:
        self._observer = observer or SilentObserver()
        self._model = _guarded(chat_model, "hyde", settings, self._observer)

    def transform(self, query: str, *, history: Sequence[Message] = ()) -> list[str]:  # noqa: ARG002 - the protocol's
        """Return the question and a hypothetical answer, or the question alone (see `QueryTransformer`)."""
        if _is_blank(query):
            return [query]
        try:
            answer = parse_hypothetical_answer(self._model.complete(render_hypothetical_answer_request(query)))
        except Exception:  # noqa: BLE001 - nothing that a model does may keep the question from being searched for
            answer = None
        if answer is None:
            self._observer.count("hyde.fallbacks")
            return [query]
        return [query, answer]


class ConversationAwareQueryTransformer:
    """Has a model rewrite a follow-up question so that it stands alone.

    - Does not call the model without a conversation or for a question that stands alone (see `is_standalone`).
    - Passes the last turns to the model as data.
    - Returns the question unchanged if the model fails, refuses or writes no question. This is counted as
      `standalone.fallbacks`, in addition to the counts of `GuardedChatModel` under `standalone`.

    Args:
        chat_model: The model. A `GuardedChatModel` is used as it is, so that several users share its breaker.
        max_history_turns: The number of most recent turns passed to the model.
        settings: The settings (`model_calls`).
        observer: Receives counts.
    """

    def __init__(
        self,
        chat_model: ChatModel,
        *,
        max_history_turns: int = 5,
        settings: "ArcSettings | None" = None,
        observer: Observer | None = None,
    ) -> None:
        self._turns = _check_turns(max_history_turns)
        self._observer = observer or SilentObserver()
        self._model = _guarded(chat_model, "standalone", settings, self._observer)

    def transform(self, query: str, *, history: Sequence[Message] = ()) -> list[str]:
        """Return the standalone question (see `QueryTransformer`)."""
        said = last_turns(_messages(history), self._turns)
        if _is_blank(query) or not said or is_standalone(query):
            return [query]
        try:
            answer = self._model.complete(render_standalone_question_request(query, said))
            rewritten = parse_standalone_question(answer, question=query)
        except Exception:  # noqa: BLE001 - nothing that a model does may keep the question from being searched for
            rewritten = None
        if rewritten is None:
            self._observer.count("standalone.fallbacks")
            return [query]
        return [rewritten]


class RuleBasedConversationTransformer:
    """Adds the missing topic words to a follow-up question, without a model.

    - Finds them by rules (see `is_standalone` and `topic_words`) for English and Korean, and for the commonest forms
      of Chinese and Japanese.
    - Returns a question unchanged if it stands alone or has no conversation before it.
    - Deterministic; takes microseconds to a few milliseconds.

    Args:
        max_history_turns: The number of most recent turns to search for topic words.
        max_words: The maximum number of words added.

    Raises:
        InvalidInputError: An argument is not a whole number in its range.
    """

    def __init__(self, *, max_history_turns: int = 5, max_words: int = 8) -> None:
        if type(max_words) is not int or max_words < 1:
            raise InvalidInputError("max_words", max_words, "1 or more")
        self._turns = _check_turns(max_history_turns)
        self._words = max_words

    def transform(self, query: str, *, history: Sequence[Message] = ()) -> list[str]:
        """Return the question with its missing topic words (see `QueryTransformer`)."""
        said = last_turns(_messages(history), self._turns)
        if _is_blank(query) or not said or is_standalone(query):
            return [query]
        return [" ".join([query.strip(), *topic_words(query, said, max_words=self._words)])]


def _guarded(chat_model: ChatModel, name: str, settings: "ArcSettings | None", observer: Observer) -> GuardedChatModel:
    if isinstance(chat_model, GuardedChatModel):
        return chat_model
    if not isinstance(chat_model, ChatModel):
        raise InvalidInputError("chat_model", chat_model, "a ChatModel: complete(messages)")
    if settings is None:
        from arc_common.settings import ArcSettings  # noqa: PLC0415 - pydantic is slow to import

        settings = ArcSettings()
    return GuardedChatModel(chat_model, settings=settings, observer=observer, name=name)


def _is_blank(query: str) -> bool:
    if not isinstance(query, str):
        raise InvalidInputError("query", query, "text")
    return not query.strip()


def _messages(history: Sequence[Message]) -> list[Message]:
    return checked_items("history", history, Message, expected="messages")


def _check_turns(value: int) -> int:
    if type(value) is not int or value < 0:
        raise InvalidInputError("max_history_turns", value, "0 or more")
    return value
