"""Rules for every context window and for its conversions to frameworks' and providers' messages."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import dropwhile
from math import inf
from typing import Any

from arc_common import ArcError, BudgetExceededError, ContentPart, ContextEngine, Message, Role
from arc_common.context import NO_LAYERS, ContextWindow, Costs, Receipt, build_context_window
from arc_common.messages import Turn, exchanges_of, turns_of
from arc_common.protocols import TokenCounter
from langchain_arc import messages as langchain_messages
from llamaindex_arc import messages as llamaindex_messages
from tests.support.providers import anthropic, gemini, openai
from tests.support.window_cases import Case, factor, fixed_tokens, parts, plain_tokens, says, schema_tokens

PROVIDERS = {"anthropic": anthropic, "gemini": gemini, "openai": openai}

_MEDIA = frozenset({"image", "audio", "file"})
_SHORTEST = 16
"""Characters of the shortest prefix of a text that is shown."""
_WORD = 48
"""Tokens of tolerance: texts are cut at words, to within some characters, and a family emoji takes some twenty."""


class BrokenWindowError(AssertionError):
    """A window breaks a rule; states the rule's name and the details."""

    @property
    def rule(self) -> str:
        return str(self.args[0])

    def __str__(self) -> str:
        return ": ".join(map(str, self.args))


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a case.

    Args:
        refused: The fixed parts don't fit, and the error said so.
        used: The request's tokens, as a share of the budget.
        overflows: The history does not fit into the tokens available for it.
        spare: The unused tokens of the budget.
        more: The fewest tokens by which more of the history could be shown; infinity if all of it is.
    """

    refused: bool = False
    used: float = 0.0
    overflows: bool = False
    spare: int = 0
    more: float = inf

    @property
    def is_wasteful(self) -> bool:
        """Return whether a tenth of the budget is unused although more of the history would fit."""
        return self.overflows and self.used < 0.9 and self.spare >= self.more


@cache
def engine_with(counter: TokenCounter) -> ContextEngine:
    return ContextEngine.open(token_counter=counter)


def built(case: Case) -> ContextWindow:
    """Build the window; for one case in ten through a session."""
    request = case.request
    if (
        case.seed % 10 == 0
        and case.layers is NO_LAYERS
        and request.placement == "user"
        and request.facts_role == "system"
    ):
        return (
            engine_with(case.counter)
            .session("any")
            .context(
                request.query,
                system_prompt=request.system_prompt,
                documents=request.documents,
                tools=request.tools,
                response_format=request.response_format,
                budget=request.budget,
                history=case.history,
            )
        )
    tokens = plain_tokens(case.counter)
    stored = {id(message): tokens(message) for message in case.history}
    return build_context_window(request, case.history, costs=Costs(case.counter, stored), layers=case.layers)


def check_case(case: Case) -> Outcome:
    """Build the window, and raise `BrokenWindowError` if it breaks a rule."""
    is_sampled = case.seed % 16 == 0
    before = repr(case.history) if is_sampled else ""
    kept_as_they_are = list(case.history)
    budget = case.request.budget.input_tokens
    needed = fixed_tokens(case)
    try:
        window = built(case)
    except BudgetExceededError as error:
        if (needed - 3) * factor(case.counter) + 3 + 3 <= budget:  # each part may be rounded up
            raise BrokenWindowError("refused without need", f"{error}; {needed} of {budget}") from error
        return Outcome(refused=True)
    except ArcError as error:
        raise BrokenWindowError(type(error).__name__, f"{error}") from error
    messages = window.messages
    check_fixed(case, messages)
    check_shape(messages, is_running=case.request.query is None)
    check_tokens(case, window)
    check_account(window.receipt)
    check_order(case, messages)
    request = answered(messages)
    check_providers(case, request, "arc")
    if not all(one is other for one, other in zip(case.history, kept_as_they_are, strict=True)):
        raise BrokenWindowError("inputs", "the history was changed")
    if is_sampled:
        if repr(case.history) != before:
            raise BrokenWindowError("inputs", "a message of the history was changed")
        if repr(built(case)) != repr(window):
            raise BrokenWindowError("determinism", "the same input gave another window")
    if case.seed % 11 == 0:
        check_langchain(case, request)
    if case.seed % 11 == 5:
        check_llamaindex(case, request)
    return Outcome(
        used=window.total_tokens / budget,
        overflows=_overflows(case, budget - needed * factor(case.counter)),
        spare=budget - window.total_tokens,
        more=least_more(case, messages) * factor(case.counter) + _WORD,
    )


def check_fixed(case: Case, messages: Sequence[Message]) -> None:
    """Check that the system prompt and the current user message are complete."""
    prompt, current = case.prompt, case.current
    if not messages:
        raise BrokenWindowError("empty request", "no messages")
    if prompt and not (messages[0].role is Role.SYSTEM and messages[0].text.startswith(prompt)):
        raise BrokenWindowError("system prompt", "it is not at the start")
    users = [message for message in messages if message.role is Role.USER]
    shown = users[-1] if users else Message(Role.USER, None)
    if not shown.text.startswith(current.text) or not all(part in parts(shown) for part in parts(current)):
        raise BrokenWindowError("current user message", f"{current!r:.200} is shown as {shown!r:.200}")
    if case.request.query is not None and messages[-1] is not shown:
        raise BrokenWindowError("current user message", "it is not the last message")


def check_shape(messages: Sequence[Message], *, is_running: bool) -> None:
    """Check the order: one system message, a user message, results after calls; open calls end a running turn only."""
    rest = messages[1:] if messages[0].role is Role.SYSTEM else messages
    if any(message.role is Role.SYSTEM for message in rest):
        raise BrokenWindowError("system messages", "more than one, or not at the start")
    if not rest or rest[0].role is not Role.USER:
        raise BrokenWindowError("first message", "it is not the user's")
    waiting: Counter[str | None] = Counter()
    for message in rest:
        if message.role is Role.TOOL:
            if not waiting[message.tool_call_id]:
                raise BrokenWindowError("orphaned result", f"{message!r:.300}")
            waiting[message.tool_call_id] -= 1
        else:
            if +waiting:
                raise BrokenWindowError("orphaned call", f"{+waiting} before {message!r:.200}")
            waiting = Counter(call.id for call in message.tool_calls)
    if +waiting and not is_running:
        raise BrokenWindowError("orphaned call", f"{+waiting} at the end")


def check_tokens(case: Case, window: ContextWindow) -> None:
    """Check that an independent count is at most the window's total, which is within the budget."""
    budget = case.request.budget.input_tokens
    tokens = plain_tokens(case.counter)
    recounted = 3 + (schema_tokens(case) + sum(map(tokens, window.messages))) * factor(case.counter)
    if not int(recounted) <= window.total_tokens <= budget:
        raise BrokenWindowError("budget", f"{recounted} recounted, {window.total_tokens} stated, {budget} allowed")


def check_account(receipt: Receipt) -> None:
    """Check that items add up to sections and sections to the total, within limits, and that items hold all tokens."""
    for section in receipt.sections:
        tokens = sum(item.tokens or 0 for item in section.items)
        if tokens != section.tokens or any(item.tokens is None for item in section.items):
            raise BrokenWindowError("account", f"{section.name} has {section.tokens} tokens, its items {tokens}")
        if section.tokens > section.limit:
            raise BrokenWindowError("limit", f"{section.name} has {section.tokens} tokens of {section.limit}")
    total = sum(section.tokens for section in receipt.sections)
    if total != receipt.total_tokens:
        raise BrokenWindowError("account", f"the sections have {total} tokens of {receipt.total_tokens}")


def check_order(case: Case, messages: Sequence[Message]) -> None:
    """Check that the history's messages are unique and in order; only results may have moved up to their calls."""
    places = {message.id: place for place, message in enumerate(case.history)}
    shown = [message for message in messages if message.id in places and message is not case.request.query]
    if len({message.id for message in shown}) != len(shown):
        raise BrokenWindowError("order", "a message comes twice")
    in_order = [places[message.id] for message in shown if message.role is not Role.TOOL]
    if in_order != sorted(in_order):
        raise BrokenWindowError("order", f"{[message.id for message in shown]}")


def answered(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with an answer to each open call at the end: the next request of a running loop."""
    complete = list(messages)
    last = max((i for i, message in enumerate(messages) if message.role is not Role.TOOL), default=0)
    waiting = Counter(call.id for call in messages[last].tool_calls)
    waiting.subtract(message.tool_call_id for message in messages[last + 1 :])
    return complete + [Message(Role.TOOL, "done", tool_call_id=call_id) for call_id in (+waiting).elements()]


def check_providers(case: Case, messages: Sequence[Message], form: str) -> None:
    """Check that every provider accepts the request. It may end with an answer only if the history does."""
    for name, provider in PROVIDERS.items():
        for violation in provider.violations(provider.render(messages)):
            if violation.rule != "last" or messages[-1].role is not Role.ASSISTANT:
                raise BrokenWindowError(f"{name} ({form}): {violation.rule}", f"{violation}")


def check_langchain(case: Case, messages: Sequence[Message]) -> None:
    """Check that LangChain's message objects have the same content and are as valid."""
    objects = [langchain_messages.from_arc(message) for message in messages]
    _check_objects(
        [
            (
                {"human": "user", "ai": "assistant"}.get(each.type, each.type),
                [call["id"] for call in (*getattr(each, "tool_calls", ()), *getattr(each, "invalid_tool_calls", ()))],
                getattr(each, "tool_call_id", None) or None,
            )
            for each in objects
        ],
        "LangChain",
    )
    check_contents(messages, [str(each.text) for each in objects], "LangChain")
    back = list(map(langchain_messages.to_arc, objects))
    check_fixed(case, back)
    tokens = plain_tokens(case.counter)
    for message, other in zip(messages, back, strict=True):
        if tokens(message) != tokens(other):
            raise BrokenWindowError("LangChain tokens", f"{message!r:.200} came back as {other!r:.200}")
    check_providers(case, back, "LangChain")


def check_llamaindex(case: Case, messages: Sequence[Message]) -> None:
    """Check that LlamaIndex's message objects have the same content and are as valid."""
    objects = [llamaindex_messages.from_arc(message) for message in messages]
    _check_objects(
        [
            (
                each.role.value,
                [block.tool_call_id for block in each.blocks if block.block_type == "tool_call"],
                each.additional_kwargs.get("tool_call_id"),
            )
            for each in objects
        ],
        "LlamaIndex",
    )
    texts = ["".join(block.text for block in each.blocks if block.block_type == "text") for each in objects]
    check_contents(messages, texts, "LlamaIndex")
    check_providers(case, list(map(llamaindex_messages.to_arc, objects)), "LlamaIndex")


def _check_objects(seen: Sequence[tuple[str, list[Any], str | None]], framework: str) -> None:
    """Check roles, call ids and the ids that results answer, of a framework's messages."""
    roles = [role for role, _, _ in seen]
    if "system" in roles[1:] or roles[int(roles[0] == "system")] != "user":
        raise BrokenWindowError(f"{framework} roles", f"{roles}")
    waiting: list[Any] = []
    for role, calls, answers in seen:
        if role == "tool":
            if answers not in waiting:
                raise BrokenWindowError(f"{framework} orphaned result", f"{answers!r} answers none of {waiting}")
            waiting.remove(answers)
        elif waiting:
            raise BrokenWindowError(f"{framework} orphaned call", f"{waiting} before a message of role {role}")
        else:
            waiting = list(calls)
    if waiting:
        raise BrokenWindowError(f"{framework} orphaned call", f"{waiting} at the end")


def check_contents(messages: Sequence[Message], texts: Sequence[str], framework: str) -> None:
    """Check that a framework's messages have the text of arc's."""
    for message, text in zip(messages, texts, strict=True):
        if "".join(text.split()) != "".join(message.text.split()):
            raise BrokenWindowError(f"{framework} text", f"{message!r:.200} says {text!r:.200}")


def _overflows(case: Case, room: float) -> bool:
    """Return whether the part of the history that can be shown exceeds the tokens left by the fixed parts.

    With limits by count, nothing is demanded.
    """
    request = case.request
    if request.max_turns is not None or request.max_messages is not None or case.seed % 10 == 0:
        return False
    tokens = plain_tokens(case.counter)
    behind = dropwhile(lambda message: message.role is Role.SYSTEM, case.history)
    total = sum(tokens(message) for message in behind if message.role is Role.SYSTEM)
    total += sum(tokens(message) for turn in _turns(case) for message in turn.messages)
    if request.query is None:
        total -= tokens(case.current)
    return total * factor(case.counter) > room


def _turns(case: Case) -> list[Turn]:
    """Return the turns of the history that can be shown, with results at their calls."""
    spoken = [message for message in case.history if message.role is not Role.SYSTEM]
    exchanges, _ = exchanges_of([message for message in spoken if message.role is Role.TOOL or _is_sent(message)])
    is_open = case.request.query is None
    usable = [one for one in exchanges if one.complete or (is_open and one is exchanges[-1])]
    return [turn for turn in turns_of(usable) if turn.starts_with_user]


def least_more(case: Case, messages: Sequence[Message]) -> float:
    """Return the fewest tokens by which more of the history could be shown without a gap.

    For a turn that is not shown, these are the beginnings of its user message and of its newest exchange; for one that
    is shown, the previous exchange with cleared results; for a shortened message, a part of what was removed.
    """
    shown = {message.id: message for message in messages}
    more = inf
    for turn in reversed(_turns(case)):
        user = turn.exchanges[0].messages[0]
        if user.id not in shown:
            opening = [user, *turn.exchanges[-1].messages] if turn.exchanges[1:] else [user]
            return min(more, sum(_least(case, message) for message in opening))
        has_gap = False
        for exchange in turn.exchanges[:0:-1]:
            has_gap = exchange.messages[0].id not in shown
            if has_gap:
                more = min(more, sum(_least(case, message) for message in exchange.messages))
                break
            more = min([more, *(_taken(case, message, shown[message.id]) for message in exchange.messages)])
        if user is not case.current:
            more = min(more, _taken(case, user, shown[user.id]))
            if has_gap:
                break
    return more


def _least(case: Case, message: Message) -> int:
    """Return the tokens of the shortest form of a message: three words, and everything that can't be cut."""
    tokens = plain_tokens(case.counter)
    forms = [message]
    if message.role is Role.TOOL:
        forms.append(replace(message, content=f"[cleared: {tokens(message):,} tokens]"))
    elif message.content is not None:
        others = [
            ContentPart("text", f"[cleared: {part.type}]") if part.type in _MEDIA else part
            for part in parts(message)
            if part.type != "text"
        ]
        text = ContentPart("text", f"{message.text[:_SHORTEST]}... [truncated]")
        forms.append(replace(message, content=(*others, text)))
    return min(map(tokens, forms))


def _taken(case: Case, message: Message, shown: Message) -> float:
    """Return the tokens of a little more of a shortened message: a word of its text, or a cleared result or image."""
    if shown.text == message.text and parts(shown) == parts(message):
        return inf
    if shown.text.endswith("... [truncated]") and not message.text.endswith("... [truncated]"):
        return 0
    tokens = plain_tokens(case.counter)
    if message.role is Role.TOOL:
        beginning = replace(message, content=f"{message.text[:_SHORTEST]}... [truncated]")
        return min(tokens(message), tokens(beginning)) - tokens(shown)
    return tokens(message) - tokens(shown)


def _is_sent(message: Message) -> bool:
    return says(message) or bool(message.tool_calls)


def shrunk(case: Case, check: Callable[[Case], object] = check_case) -> Case:
    """Reduce a failing case by the parts of the request and messages that the failure does not need."""

    def fails_as_before(other: Case) -> bool:
        return _failure(other, check) == failure

    failure = _failure(case, check)
    plainer = {"documents": (), "tools": None, "response_format": None, "system_prompt": None, "placement": "user"}
    for field, value in plainer.items():
        simpler = replace(case, request=replace(case.request, **{field: value}))
        case = simpler if fails_as_before(simpler) else case
    bare = replace(case, layers=NO_LAYERS)
    case = bare if fails_as_before(bare) else case
    for place in reversed(range(len(case.history))):
        fewer = replace(case, history=(*case.history[:place], *case.history[place + 1 :]))
        case = fewer if fails_as_before(fewer) else case
    return case


def _failure(case: Case, check: Callable[[Case], object]) -> str | None:
    """Return the name of the rule that a case breaks."""
    try:
        check(case)
    except BrokenWindowError as error:
        return error.rule
    except StopIteration:  # no user message is left
        return None
    except Exception as error:  # noqa: BLE001 - a crash is a failure, too
        return type(error).__name__
    return None
