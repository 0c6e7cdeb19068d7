"""ArcChatMessageHistory: a session as LangChain's chat message history."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypedDict, Unpack

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage

from arc_common.engine.context_engine import ContextEngine, checked_engine
from arc_common.exceptions import InvalidInputError
from arc_common.messages import Message
from arc_common.tokens.selection import check_limits
from langchain_arc.messages import from_arc
from langchain_arc.stored_messages import ids_of, new_messages, stored_batch, taken_meanwhile


class HistoryOptions(TypedDict, total=False):
    """Options of `ArcChatMessageHistory` that all sessions share."""

    caller_id: str
    account_id: str | None
    max_tokens: int | None
    max_turns: int | None
    max_messages: int | None
    include_summary: bool


class ArcChatMessageHistory(BaseChatMessageHistory):
    """One session of an engine as a chat message history, for `RunnableWithMessageHistory` and for direct use.

        chain = RunnableWithMessageHistory(prompt | model, ArcChatMessageHistory.factory(engine))
        chain.invoke("Hello", {"configurable": {"session_id": "s"}})

    - Creating one does no I/O, so it is safe in an event loop. The async forms are LangChain's own: they run the
      others on a thread.
    - `messages` are those that a model should see: the newest whole turns within the limits, no tool call without its
      results and no result without its call. The originals stay in the session.
    - Once the conversation is summarised, one system message with its facts and summary leads the view and replaces the
      messages they were made from. It carries a mark, and is skipped when it is handed back.
    - The view is frozen from the first read until this object writes, because `RunnableWithMessageHistory` reads it
      again at the end of a run and compares. Create one object per run, as `factory` does.
    - Other writers may use the same session: nothing is lost and nothing is stored twice.
    - Reading and writing raise `SessionNotFoundError` if the session belongs to another user, and `StoreError` if the
      store fails.

    Args:
        session_id, user_id, caller_id, account_id: As in `ContextEngine.session`.
        max_tokens, max_turns, max_messages: The view's limits. Without any, those of the settings apply.

    Raises:
        InvalidInputError: An id or a limit is invalid, or `include_summary` is not a bool.
    """

    def __init__(
        self,
        session_id: str,
        *,
        engine: ContextEngine,
        user_id: str | None = None,
        caller_id: str = "default",
        account_id: str | None = None,
        max_tokens: int | None = None,
        max_turns: int | None = None,
        max_messages: int | None = None,
        include_summary: bool = True,
    ) -> None:
        check_limits(max_turns=max_turns, max_messages=max_messages, max_tokens=max_tokens)
        if not isinstance(include_summary, bool):
            raise InvalidInputError("include_summary", include_summary, "True or False")
        checked_engine(engine)
        self._session = engine.session(session_id, user_id=user_id, caller_id=caller_id, account_id=account_id)
        self._limits: dict[str, Any] = {
            "max_tokens": max_tokens,
            "max_turns": max_turns,
            "max_messages": max_messages,
            "keep_opening": True,
            "include_summary": include_summary,
        }
        self._view: list[BaseMessage] | None = None

    @classmethod
    def factory(
        cls, engine: ContextEngine, *, user_id: str | None = None, **options: Unpack[HistoryOptions]
    ) -> Callable[..., "ArcChatMessageHistory"]:
        """Return a `get_session_history` for `RunnableWithMessageHistory`: it creates a new history for each run.

        It is called with the `session_id`, or with `session_id` and `user_id` if `history_factory_config` names both.
        The arguments are those of the class, and wrong ones are refused at once; `user_id` applies where a run names no
        user.
        """
        cls("any", engine=engine, user_id=user_id, **options)  # refuse wrong options now instead of in the first run
        default_user_id = user_id

        def get_session_history(session_id: str, user_id: str | None = None) -> ArcChatMessageHistory:
            return cls(session_id, engine=engine, user_id=default_user_id if user_id is None else user_id, **options)

        return get_session_history

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]  # the base class asks for "a property or attribute"
        """The view: facts and summary, then the newest whole turns within the limits.

        A greeting is included while everything fits, because user interfaces show this list too. Anthropic and Gemini
        refuse a request that begins with one; `with_arc_memory` and `ArcMemoryMiddleware` never send it first.
        """
        if self._view is None:
            self._view = list(map(from_arc, self._session.window(**self._limits)))
        return list(self._view)

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Append messages to the session; the view is read again afterwards.

        - Durable on return; chunks become whole messages; messages that arc made, or that are stored already, are
          skipped.
        - A failure is logged, counted (`save.errors`) and passed to the engine's `on_save_error` before it is raised,
          because `RunnableWithMessageHistory` swallows it.

        Raises:
            InvalidInputError: A message can't be stored. Nothing was written.
        """
        batch: list[Message] = []
        try:
            batch = stored_batch(messages)
            known = self._known(self._session.find(ids_of(batch)))
            new = new_messages(batch, known)
            stored = self._session.append(new)
            if again := taken_meanwhile(new, stored, known):
                self._session.append(again)
        except Exception as error:
            self._session.report_save_error(error, batch)
            raise
        self._view = None

    def clear(self) -> None:
        """Remove all messages and everything made from them; the session itself stays."""
        self._session.clear()
        self._view = None

    def _known(self, stored: Iterable[Message]) -> dict[str, Message | None]:
        """Return known messages by id, including read ones cleared since, so that no agent restores them."""
        known: dict[str, Message | None] = {message.id: None for message in self._view or () if message.id}
        known.update((message.id, message) for message in stored if message.id)
        return known
