"""ArcMemory: a session as LlamaIndex's memory; and ArcChatMemoryBuffer, which is a `ChatMemoryBuffer` too."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from threading import Lock
from typing import Any, Self, overload
from uuid import uuid4

from llama_index.core.base.llms.generic_utils import messages_to_history_str
from llama_index.core.base.llms.types import ChatMessage, TextBlock
from llama_index.core.bridge.pydantic import Field, PrivateAttr, SerializeAsAny, model_validator
from llama_index.core.llms.llm import LLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.memory.chat_memory_buffer import DEFAULT_TOKEN_LIMIT, DEFAULT_TOKEN_LIMIT_RATIO
from llama_index.core.memory.types import DEFAULT_CHAT_STORE_KEY, BaseMemory
from llama_index.core.storage.chat_store import BaseChatStore
from typing_extensions import override

from arc_common.documents import checked_items
from arc_common.engine.context_engine import ContextEngine
from arc_common.engine.session import Session
from arc_common.exceptions import (
    BudgetExceededError,
    EngineClosedError,
    InvalidInputError,
    StoreError,
    check_whole,
)
from arc_common.messages import Message, Role, fields_from_plain, plain_fields, same_content
from arc_common.protocols import TokenCounter
from arc_common.serialization import dumps, loads
from arc_common.tokens.budget import usable_tokens
from arc_common.tokens.counters import message_tokens
from llamaindex_arc.chat_store import ArcChatStore, replace_messages
from llamaindex_arc.component import Component
from llamaindex_arc.engine import engine_named, name_of
from llamaindex_arc.messages import from_arc, request_tokens, to_arc
from llamaindex_arc.models import CounterAsTokenizer, TokenizerAsCounter, checked_llm
from llamaindex_arc.placement import (
    PLACEMENT_TOKENS,
    FactsRole,
    bare,
    place_of,
    shown,
    without_memory,
    without_oldest,
)


class ArcMemory(Component, BaseMemory):
    """One session of an engine as a durable memory within a token limit; turns cost the same however long it is.

        memory = ArcMemory.from_defaults(engine=engine, session_id="ann")
        answer = await FunctionAgent(llm=llm, tools=tools).run("Hello", memory=memory)

    - For chat engines, agents and workflows alike; a workflow's `Context` that holds one can be saved and restored.
    - `get` returns the messages that a model should see: the newest whole turns within the limit, never a tool call
      without its results or a result without its call; the newest turn's question is included even if nothing else
      fits.
    - Once the conversation is summarised, one system message with its facts and summary leads the result of `get`, and
      replaces the messages they were made from. It is skipped when it is handed back. Engines and agents put their own
      system prompt before it. If only one system message is accepted (some local models), or the first one is
      overwritten (`CodeActAgent` without a system prompt), use `facts_role="user"`.
    - The messages returned belong to the caller: they are new objects, down to their blocks.
    - `put` stores before it returns. If the store fails, it doesn't raise, because chat engines call it between a
      question and its answer: the failure is logged, counted (`save.errors`) and passed to the engine's
      `on_save_error`, and the message stays in this object, visible to `get`, until the next `put` stores it. Every
      other method raises `StoreError`. Invalid input always raises.
    - Any number of memories may share a session, in threads, event loops and processes: nothing is lost or stored
      twice.
    - A copy, even a deep one, works on the same session. A pickled or serialised memory carries its messages, and
      continues on its engine if that is still open: see `from_dict`.
    """

    token_limit: int = Field(description="The most tokens that `get` returns.")
    tokenizer_fn: Callable[[str], list[Any]] = Field(exclude=True, description="Counts tokens.")
    chat_store: SerializeAsAny[ArcChatStore] = Field(default_factory=ArcChatStore)
    chat_store_key: str = Field(default=DEFAULT_CHAT_STORE_KEY, description="The session's id.")
    include_summary: bool = Field(default=True, description="Return facts and summary before the messages.")
    facts_role: FactsRole | None = Field(
        default=None, description="Where facts and summary stand: system or user. None: as the engine's settings say."
    )
    _session: Session | None = PrivateAttr(default=None)
    _unsaved: tuple[Message, ...] = PrivateAttr(default=())
    _notes: tuple[str, ...] = PrivateAttr(default=())
    _lock: Any = PrivateAttr(default_factory=Lock)
    _own_counter: TokenizerAsCounter | None = PrivateAttr(default=None)

    @model_validator(mode="before")
    @classmethod
    def validate_memory(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Check the limit; default to the engine's counter (upstream loads a tokenizer vocabulary here)."""
        token_limit = values.get("token_limit")
        if type(token_limit) is not int or token_limit < 1:
            raise ValueError("Token limit must be set and greater than 0.")
        given = values.get("chat_store")
        store = ArcChatStore() if given is None else given
        tokenizer = values.get("tokenizer_fn")
        key = values.get("chat_store_key", DEFAULT_CHAT_STORE_KEY)
        if isinstance(store, ArcChatStore):
            tokenizer = tokenizer or CounterAsTokenizer(store.engine.token_counter)
            key = _checked_key(key, store, is_own=given is None)
        return {**values, "chat_store": store, "tokenizer_fn": tokenizer, "chat_store_key": key}

    def model_post_init(self, context: Any, /) -> None:
        """Count with the user's tokenizer, if one is given."""
        super().model_post_init(context)
        if not isinstance(self.tokenizer_fn, CounterAsTokenizer):
            self._own_counter = TokenizerAsCounter(self.tokenizer_fn)

    @classmethod
    @override
    def from_defaults(
        cls,
        *,
        engine: ContextEngine | None = None,
        session_id: str | None = None,
        user_id: str | None = None,
        caller_id: str = "default",
        branch: int | str | None = None,
        chat_history: list[ChatMessage] | None = None,
        llm: LLM | None = None,
        token_limit: int | None = None,
        tokenizer_fn: Callable[[str], list[Any]] | None = None,
        include_summary: bool = True,
        facts_role: FactsRole | None = None,
        **kwargs: Any,
    ) -> Self:
        """Create a memory over a session. Does no I/O, unless `chat_history` is given.

        - `session_id`, `user_id`, `caller_id` and `branch` are as in `ContextEngine.session`. A session id is required,
          unless the memory has an engine of its own (the default, as the settings say) without a database.
        - A conversation that already begins with the `chat_history` continues; any other is replaced, as by `set`.
        - `token_limit` is the most that `get` returns, including the initial count; by default three quarters of the
          LLM's context window, or of the engine's. `tokenizer_fn` counts in place of the engine's counter, each text
          once.
        - `facts_role` "system" puts facts and summary in a system message, "user" before the words of the first user
          message; by default it is the engine's `context.facts_role`. `include_summary=False` leaves them out.

        Raises:
            InvalidInputError: An argument is invalid.
            StoreError: The history given could not be stored.
        """
        if kwargs:
            raise InvalidInputError("kwargs", kwargs, "no further arguments")
        if token_limit is not None:
            check_whole("token_limit", token_limit)
        if not isinstance(include_summary, bool):
            raise InvalidInputError("include_summary", include_summary, "True or False")
        if facts_role not in ("system", "user", None):
            raise InvalidInputError("facts_role", facts_role, '"system", "user" or None')
        if tokenizer_fn is not None and not callable(tokenizer_fn):
            raise InvalidInputError("tokenizer_fn", tokenizer_fn, "a function from text to a list of tokens")
        if llm is not None:
            checked_llm(llm)
        if chat_history is not None:
            chat_history = checked_items("chat_history", chat_history, ChatMessage, expected="a list of chat messages")
        store = ArcChatStore(engine, caller_id=caller_id, user_id=user_id)
        key = _checked_key(DEFAULT_CHAT_STORE_KEY if session_id is None else session_id, store, is_own=engine is None)
        if token_limit is None:
            window = llm.metadata.context_window if llm else store.engine.budget.context_window
            token_limit = int(window * DEFAULT_TOKEN_LIMIT_RATIO)
        memory = cls(
            token_limit=token_limit,
            tokenizer_fn=tokenizer_fn or CounterAsTokenizer(store.engine.token_counter),
            chat_store=store,
            chat_store_key=key,
            include_summary=include_summary,
            facts_role=facts_role,
        )
        memory._session = store.session(key, branch=branch)
        if chat_history and memory.get_all()[: len(chat_history)] != chat_history:
            memory.set(chat_history)
        return memory

    @property
    def session(self) -> Session:
        """The memory's session; if it moves to another branch, so does the memory."""
        if self._session is None:
            self._session = self.chat_store.session(self.chat_store_key)
        return self._session

    def fork(self, at: str | None = None, *, name: str | None = None) -> Self:
        """Return a memory on a new branch, which continues after the message with the id `at`.

            idea = memory.fork(at=memory.session.messages()[-3].id, name="idea")

        - Facts, summary, memories and recalled messages are those of the branch: neither branch sees the other's later
          messages. `from_defaults(branch="idea")` opens it again.
        - Messages that a failing store could not take stay with this memory.

        Args:
            at: The id of the last shared message; by default the newest stored one.
            name: A name to open the branch by, instead of its number.

        Raises:
            InvalidInputError: The memory has no such message, or the name is taken.
            SessionNotFoundError: Nothing was stored yet.
            StoreError: The store failed.
        """
        return self._on(self.session.fork(at, name=name).branch)

    async def afork(self, at: str | None = None, *, name: str | None = None) -> Self:
        """Async form of `fork`."""
        return self._on((await self.session.afork(at, name=name)).branch)

    def _on(self, branch: int | str | None) -> Self:
        store = self.chat_store
        return self.from_defaults(
            engine=store.engine,
            session_id=self.chat_store_key,
            user_id=store.user_id,
            caller_id=store.caller_id,
            branch=branch,
            token_limit=self.token_limit,
            tokenizer_fn=self.tokenizer_fn,
            include_summary=self.include_summary,
            facts_role=self.facts_role,
        )

    @override
    def get(
        self,
        input: str | None = None,
        initial_token_count: int = 0,
        **kwargs: Any,
    ) -> list[ChatMessage]:
        """Return facts, summary and recalled items for the question, then the newest whole turns, within the limit.

        - The cost depends on what is returned, not on the length of the conversation.
        - The result begins with a user message, as providers require, once the conversation exceeds the limit; until
          then it may begin with a greeting, which `get_all` always includes.

        Args:
            input: The user's question, for which memories, earlier messages and tool results are recalled. By default
                the newest user message, while it is unanswered: most engines and agents pass none.
            initial_token_count: Tokens of the limit that are already used; exceeding the limit is not an error.
            **kwargs: Ignored.

        Raises:
            BudgetExceededError: The newest user message, with the system messages at the start of the conversation, or
                the question given, exceeds the limit.
            InvalidInputError: `initial_token_count` is negative or not a whole number.
            SessionNotFoundError: The session belongs to another user.
        """
        return self._shown(self.session.window(**self._limits(initial_token_count, input)))

    @override
    async def aget(
        self,
        input: str | None = None,
        initial_token_count: int = 0,
        **kwargs: Any,
    ) -> list[ChatMessage]:
        """Async form of `get`."""
        return self._shown(await self.session.awindow(**self._limits(initial_token_count, input)))

    @overload
    def reduced(self, request: Sequence[ChatMessage], *, max_tokens: int) -> list[ChatMessage] | None: ...

    @overload
    def reduced(self, request: str, *, max_tokens: int) -> str | None: ...

    def reduced(self, request: Sequence[ChatMessage] | str, *, max_tokens: int) -> list[ChatMessage] | str | None:
        """Return a request to a model with less of this conversation, for one that is too long.

        - Messages before the conversation (system prompts) stay, and so does the user's message. The conversation is
          shown as by `get`, in the room that is left. A running turn loses older tool results first.
        - A text into which LlamaIndex has written the conversation, to condense a question, loses the oldest messages.

        Args:
            request: Messages, or a text, that hold the result of `get`.
            max_tokens: The most tokens of the request.

        Returns:
            The smaller request; `None` if the request doesn't show the newest messages of this conversation.

        Raises:
            BudgetExceededError: The messages before the conversation, and the user's message, exceed the limit.
            StoreError: The store failed.
        """
        check_whole("max_tokens", max_tokens)
        if isinstance(request, str):
            text = self._reduced_text([ChatMessage(request)], max_tokens)
            return text[0].content if text else None
        given = [(message, to_arc(bare(message))) for message in request]
        own = [(message, as_arc) for message, as_arc in given if not as_arc.made_by_arc]
        stored = [*self.session.messages(limit=len(own)), *self._unsaved]
        found = place_of(stored, [as_arc for _, as_arc in own])
        if found is None:
            return self._reduced_text(request, max_tokens)
        place, newest = found
        following = [*self._unsaved, *(as_arc for _, as_arc in own[place.stop :])]
        limits = self._limits(self._tokens([message for message, _ in own[: place.start]]), None)
        try:
            window = self.session.window(**{**limits, "max_tokens": max_tokens, "following": following})
        except BudgetExceededError as error:
            needed, available = error.needed + limits["reserved"], self._usable(max_tokens)
            raise BudgetExceededError("instructions and user message", needed=needed, available=available) from None
        later = {message.id for message in stored[newest:]}
        window = [message for message in window if message.id is None or message.id not in later]
        head = [one for one, as_arc in own[: place.start] if not any(same_content(as_arc, it) for it in window)]
        return [*head, *shown(window, facts_role=self._placement)]

    def note(self, text: str) -> None:
        """Add a note to the receipts of the running turn: an agent reads the memory again after the model's answer."""
        self._notes = (*self._notes, text)
        self.session.note(text)

    def _shown(self, window: Sequence[Message]) -> list[ChatMessage]:
        for text in self._notes:
            self.session.note(text)
        return shown(window, facts_role=self._placement)

    def _reduced_text(self, request: Sequence[ChatMessage], max_tokens: int) -> list[ChatMessage] | None:
        """Shorten the message into which LlamaIndex has written the conversation."""
        excess, count = self._tokens(request) - max_tokens, self.chat_store.engine.token_counter.count
        for place, message in enumerate(request):
            text = message.content or ""
            stored = [*self.session.messages(limit=text.count("\n") + 1), *self._unsaved]
            lines = [messages_to_history_str([from_arc(one)]) for one in stored]
            if (left := without_oldest(text, lines, excess=excess, tokens=count)) is not None:
                reduced = message.model_copy(update={"blocks": [TextBlock(text=left)]})
                return [*request[:place], reduced, *request[place + 1 :]]
        return None

    def _tokens(self, request: Sequence[ChatMessage]) -> int:
        return request_tokens(self.chat_store.engine.token_counter, request)

    def get_all(self) -> list[ChatMessage]:
        """Return the whole conversation."""
        return list(map(from_arc, [*self.session.messages(), *self._unsaved]))

    # `BaseMemory`'s run the sync forms; `ChatMemoryBuffer`'s would read the store and miss unsaved messages.
    aget_all = BaseMemory.aget_all
    aset = BaseMemory.aset
    areset = BaseMemory.areset

    def put(self, message: ChatMessage) -> None:
        """Append a message; a failing store doesn't raise: see the class."""
        self.put_messages([message])

    async def aput(self, message: ChatMessage) -> None:
        """Async form of `put`."""
        await self.aput_messages([message])

    def put_messages(self, messages: list[ChatMessage]) -> None:
        """Append messages, all or none; a failing store doesn't raise: see the class."""
        with self._saving(messages) as unsaved:
            self.session.append(unsaved)

    async def aput_messages(self, messages: list[ChatMessage]) -> None:
        """Async form of `put_messages`; stores them even if the task is cancelled meanwhile."""
        with self._saving(messages) as unsaved:
            await self.session.aappend(unsaved)

    def set(self, messages: list[ChatMessage]) -> None:
        """Replace the conversation (see `ArcChatStore.set_messages`); `set(get())` changes nothing."""
        replace_messages(self.session, messages)
        self._unsaved = ()

    def reset(self) -> None:
        """Remove the messages of all branches, and everything made from them."""
        self.session.clear()
        self._unsaved = ()

    @override
    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """Return the limit, the session's id and scope, and all of its messages, as JSON values. No URL, no secrets.

        The value under "engine" lets `from_dict` find the engine in this process; it reveals nothing else.
        """
        messages = [*self.session.messages(), *self._unsaved]
        return {
            "class_name": self.class_name(),
            "token_limit": self.token_limit,
            "include_summary": self.include_summary,
            "facts_role": self.facts_role,
            "chat_store_key": self.chat_store_key,
            "branch": self.session.branch,
            "chat_store": self.chat_store.to_dict(),
            "engine": name_of(self.chat_store.engine),
            "messages": list(map(_as_row, messages)),
        }

    @classmethod
    @override
    def from_dict(
        cls,
        data: dict[str, Any],
        *,
        engine: ContextEngine | None = None,
        tokenizer_fn: Callable[[str], list[Any]] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Restore a memory from the result of `to_dict`.

        A session that already holds messages continues as it is, because it is the same or newer, on the branch that
        the memory was on. An empty one receives the messages, with their ids and times. Without an `engine`, the
        original one is used if it is open in this process (so that a saved workflow continues in its database), else a
        new one, as the settings say.

        Raises:
            BranchNotFoundError: The memory's branch was deleted.
            InvalidInputError: The data are not the result of `to_dict`.
            StoreError: The store failed.
        """
        try:
            messages = list(map(_from_row, data["messages"]))
            store, key, token_limit = data["chat_store"], data["chat_store_key"], data["token_limit"]
            scope = {"caller_id": store["caller_id"], "user_id": store["user_id"]}
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInputError("data", data, f"what {cls.__name__}.to_dict gave") from error

        open_over = partial(
            cls.from_defaults,
            session_id=key,
            token_limit=token_limit,
            tokenizer_fn=tokenizer_fn,
            include_summary=data.get("include_summary", True),
            facts_role=data.get("facts_role"),
            **scope,
        )
        memory = open_over(engine=engine or engine_named(data.get("engine")))
        try:
            is_empty = not memory.session.messages(limit=1)
        except EngineClosedError:
            if engine is not None:
                raise
            memory = open_over()
            is_empty = not memory.session.messages(limit=1)
        if is_empty:
            memory.session.append(messages)
        elif (branch := data.get("branch")) is not None:
            memory = open_over(engine=memory.chat_store.engine, branch=branch)
            memory.session.messages(limit=1)  # raises if there is no such branch
        return memory

    def to_string(self) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_string(cls, json_str: str, *, engine: ContextEngine | None = None) -> Self:
        """Restore a memory from the result of `to_string`: see `from_dict`."""
        try:
            data = json.loads(json_str)
        except (TypeError, ValueError) as error:
            raise InvalidInputError("json_str", json_str, f"what {cls.__name__}.to_string gave") from error
        return cls.from_dict(data, engine=engine)

    def __reduce__(self) -> tuple[Callable[[dict[str, Any]], Self], tuple[dict[str, Any]]]:
        return type(self).from_dict, (self.to_dict(),)

    @property
    def _placement(self) -> FactsRole:
        return self.facts_role or self.chat_store.engine.settings.context.facts_role

    def _limits(self, initial_token_count: int, question: str | None) -> dict[str, Any]:
        check_whole("initial_token_count", initial_token_count, least=0)
        asked = question if isinstance(question, str) else ""
        room = self._usable(self.token_limit)
        if asked and (needed := self._count(Message(Role.USER, asked))) > room:
            raise BudgetExceededError("user message", needed=needed, available=room)
        moved = PLACEMENT_TOKENS if self._placement == "user" and self.include_summary else 0
        return {
            "max_tokens": self.token_limit,
            "reserved": initial_token_count + moved,
            "keep_opening": True,
            "keep_newest": True,
            "following": self._unsaved,
            "count": self._count if self._own_counter else None,
            "include_summary": self.include_summary,
            "query": asked,
        }

    @property
    def _counter(self) -> TokenCounter:
        return self._own_counter or self.chat_store.engine.token_counter

    def _usable(self, limit: int) -> int:
        return usable_tokens(limit, self._counter)

    def _count(self, message: Message) -> int:
        return message_tokens(self._counter, message)

    @contextmanager
    def _saving(self, messages: Sequence[ChatMessage]) -> Iterator[list[Message]]:
        """Yield the messages to store, after those that could not be stored, which keep their ids."""
        now = datetime.now(UTC)
        given = [message for message in map(to_arc, without_memory(messages)[0]) if not message.made_by_arc]
        new = [message.stored_as(f"msg_{uuid4().hex}", now) for message in given]
        if any(message.role is Role.USER for message in new):
            self._notes = ()
        with self._lock:
            waiting, self._unsaved = self._unsaved, ()
        batch = [*waiting, *new]
        try:
            yield batch
            waiting = ()
        except StoreError as error:
            waiting = tuple(batch)
            self.session.report_save_error(error, batch)
        finally:
            with self._lock:
                self._unsaved = (*waiting, *self._unsaved)


class ArcChatMemoryBuffer(ArcMemory, ChatMemoryBuffer):
    """An `ArcMemory` for code that is written for `ChatMemoryBuffer`: it is a subclass, and takes its arguments."""

    chat_store: SerializeAsAny[ArcChatStore] = Field(default_factory=ArcChatStore)

    @classmethod
    @override
    def from_defaults(
        cls,
        chat_history: list[ChatMessage] | None = None,
        llm: LLM | None = None,
        chat_store: BaseChatStore | None = None,
        chat_store_key: str = DEFAULT_CHAT_STORE_KEY,
        token_limit: int | None = None,
        tokenizer_fn: Callable[[str], list[Any]] | None = None,
        *,
        engine: ContextEngine | None = None,
        session_id: str | None = None,
        user_id: str | None = None,
        caller_id: str = "default",
        branch: int | str | None = None,
        include_summary: bool = True,
        facts_role: FactsRole | None = None,
        **kwargs: Any,
    ) -> Self:
        """Create a memory over a session, as `ArcMemory.from_defaults` does.

        - The limit is 3,000 tokens by default, as in `ChatMemoryBuffer`.
        - `chat_store` is an `ArcChatStore`, in place of `engine`, `user_id` and `caller_id`; `chat_store_key` is the
          session's id if `session_id` isn't given. The other arguments are those of `ArcMemory`.

        Raises:
            InvalidInputError: An argument is invalid.
            StoreError: The history given could not be stored.
        """
        if chat_store is not None:
            if not isinstance(chat_store, ArcChatStore):
                expected = "an ArcChatStore; arc keeps conversations in its engine"
                raise InvalidInputError("chat_store", chat_store, expected)
            if engine is not None or user_id is not None or caller_id != "default":
                raise InvalidInputError("chat_store", chat_store, "either a chat_store or an engine with its scope")
            engine, user_id, caller_id = chat_store.engine, chat_store.user_id, chat_store.caller_id
        return super().from_defaults(
            engine=engine,
            session_id=chat_store_key if session_id is None else session_id,
            user_id=user_id,
            caller_id=caller_id,
            branch=branch,
            chat_history=chat_history,
            llm=llm,
            token_limit=DEFAULT_TOKEN_LIMIT if token_limit is None and llm is None else token_limit,
            tokenizer_fn=tokenizer_fn,
            include_summary=include_summary,
            facts_role=facts_role,
            **kwargs,
        )


def _as_row(message: Message) -> dict[str, Any]:
    """Return a message as JSON values, with its id and time."""
    created_at = message.created_at.isoformat() if message.created_at else None
    body = dumps(plain_fields(message), field="message")
    return {"role": message.role.value, "id": message.id, "created_at": created_at, "body": body}


def _from_row(row: Mapping[str, Any]) -> Message:
    created_at = datetime.fromisoformat(row["created_at"]) if row["created_at"] else None
    return Message(row["role"], id=row["id"], created_at=created_at, **fields_from_plain(loads(row["body"])))


def _checked_key(key: str, store: ArcChatStore, *, is_own: bool) -> str:
    """Return the session's id; a new one if none is given and the engine is the memory's own, without a database."""
    if key == DEFAULT_CHAT_STORE_KEY and is_own and store.engine.settings.resolved_database_url is None:
        return f"chat_{uuid4().hex}"
    store.session(key)
    return key
