"""Guarantees of every compression strategy for any conversation."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from arc_common.exceptions import InvalidInputError
from arc_common.messages import Message, Role, exchanges_of
from arc_common.tokens.compression import Chain, Compression, strategy
from arc_common.tokens.selection import NO_USER, ORPHANED, UNANSWERED
from tests.support.broken_conversations import conversations, cost


def shorten(messages: list[Message]) -> str:
    return " ".join(message.text[:10] for message in messages)


DROPPING = {
    "rolling_window": strategy("rolling_window"),
    "token_pruning": strategy("token_pruning"),
    "score_pruning": strategy("score_pruning"),
    "summarize": strategy("summarize", summarize=shorten),
    "chain": Chain(
        [strategy("clear_tool_results"), strategy("truncate", max_characters=60), strategy("token_pruning")]
    ),
}
DROPPING_SOME = {
    "drop_tool_results": strategy("drop_tool_results"),
    "drop_all_tool_results": strategy("drop_tool_results", keep_last=0),
    "prune_system": strategy("prune_system", min_characters=20),
}
SHORTENING = {
    "clear_tool_results": strategy("clear_tool_results"),
    "clear_all_tool_results": strategy("clear_tool_results", keep_last=0),
    "truncate": strategy("truncate", max_characters=60),
    "chain_of_both": Chain([strategy("clear_tool_results"), strategy("truncate", max_characters=60)]),
}
EVERY = DROPPING | DROPPING_SOME | SHORTENING

every = pytest.mark.parametrize("name", EVERY)
budgets = st.integers(0, 400)


def leading(messages: list[Message]) -> list[Message]:
    return messages[: next((i for i, m in enumerate(messages) if m.role is not Role.SYSTEM), len(messages))]


def newest_user(messages: list[Message]) -> list[Message]:
    return [message for message in messages if message.role is Role.USER][-1:]


def compressed(name: str, messages: list[Message], budget: int) -> Compression:
    return EVERY[name].compress(messages, max_tokens=budget, count=cost)


def results(names: Iterable[str], messages: list[Message], budget: int) -> Iterator[tuple[str, Compression]]:
    """Yield each strategy's result for the conversation; a failure names the strategy."""
    for name in names:
        note(f"strategy: {name}")
        yield name, compressed(name, messages, budget)


def every_message_is_accounted_for_once(messages: list[Message], budget: int, result: Compression) -> None:
    """Each message is kept, changed or dropped, exactly one of these; inputs are not modified."""
    assert result.tokens == sum(map(cost, result.messages))
    ids = {id(message) for message in messages}
    untouched = Counter(message.id for message in result.messages if id(message) in ids)
    gone = Counter(item.message.id for item in result.dropped) + Counter(item.message.id for item in result.changed)
    assert untouched + gone == Counter(message.id for message in messages)
    assert all(id(item.message) in ids for item in (*result.dropped, *result.changed))
    made = {id(change.replacement) for change in result.changed}
    new = [message for message in result.messages if id(message) not in ids]
    assert made <= {id(message) for message in new}
    assert all(id(message) in made or message.made_by_arc for message in new)


def the_system_prompt_and_the_newest_user_message_stay_whole(
    messages: list[Message], budget: int, result: Compression
) -> None:
    kept = list(result.messages)
    ids = {id(message) for message in kept}
    assert {id(message) for message in newest_user(messages)} <= ids
    if kept and kept[0].made_by_arc:
        assert all(message.text in kept[0].text for message in leading(messages))
    else:
        prompt = leading(messages)
        assert [id(message) for message in kept[: len(prompt)]] == [id(message) for message in prompt]


def what_is_left_is_a_request_that_a_provider_accepts(
    messages: list[Message], budget: int, result: Compression
) -> None:
    """The user comes first, calls are followed by their results, and unanswered calls are at the very end."""
    if not result.dropped:
        return
    body = list(result.messages)[len(leading(list(result.messages))) :]
    assert not body or body[0].role is Role.USER
    exchanges, orphans = exchanges_of(body)
    assert not orphans
    assert [message for exchange in exchanges for message in exchange.messages] == body
    complete = [exchange.complete for exchange in exchanges]
    assert complete == sorted(complete, reverse=True)


def no_exchange_is_split(messages: list[Message], budget: int, result: Compression) -> None:
    dropped = {item.message.id for item in result.dropped}
    for exchange in exchanges_of(messages)[0]:
        assert len({message.id in dropped for message in exchange.messages}) == 1


def order_is_the_conversations(messages: list[Message], budget: int, result: Compression) -> None:
    kept = [message.id for message in result.messages if message.id]
    whole = [message.id for message in messages]
    ordered = [message.id for exchange in exchanges_of(messages)[0] for message in exchange.messages]
    assert kept in ([i for i in whole if i in kept], [i for i in ordered if i in kept])


def the_budget_holds(messages: list[Message], budget: int, result: Compression) -> None:
    exchanges, _ = exchanges_of(messages)
    last_complete = max((i for i, exchange in enumerate(exchanges) if exchange.complete), default=-1)
    still_open = [message for exchange in exchanges[last_complete + 1 :] for message in exchange.messages]
    must = sum(map(cost, [*leading(messages), *newest_user(messages), *still_open]))
    assert result.tokens <= max(budget, must)


def what_is_not_enough_is_still_less(messages: list[Message], budget: int, result: Compression) -> None:
    """Strategies that only shorten or drop one kind never add tokens, and stop once the result fits."""
    assert result.tokens <= sum(map(cost, messages))
    for change in result.changed:
        assert change.tokens_after < change.tokens_before


def a_changed_message_keeps_who_it_is_and_loses_its_foreign_form(
    messages: list[Message], budget: int, result: Compression
) -> None:
    assert not result.dropped
    assert len(result.messages) == len(messages)
    for change in result.changed:
        old, new = change.message, change.replacement
        assert new.origin is None
        assert replace(new, content=old.content, origin=old.origin) == old


def reasons_are_true(messages: list[Message], budget: int, result: Compression) -> None:
    """The reasons of orphaned results, unanswered calls and openings are correct."""
    exchanges, orphans = exchanges_of(messages)
    unanswered = {message.id for exchange in exchanges if not exchange.complete for message in exchange.messages}
    first_user = next((i for i, message in enumerate(messages) if message.role is Role.USER), len(messages))
    opening = {message.id for exchange in exchanges_of(messages[:first_user])[0] for message in exchange.messages}
    for item in result.dropped:
        name = item.message.id
        assert (item.reason == ORPHANED) == (name in {message.id for message in orphans})
        assert item.reason != UNANSWERED or name in unanswered
        assert item.reason != NO_USER or name in opening or item.message.role is Role.TOOL


RULES: list[tuple[Iterable[str], Callable[[list[Message], int, Compression], None]]] = [
    (EVERY, every_message_is_accounted_for_once),
    (EVERY, the_system_prompt_and_the_newest_user_message_stay_whole),
    (DROPPING | DROPPING_SOME, what_is_left_is_a_request_that_a_provider_accepts),
    (EVERY, no_exchange_is_split),
    (EVERY, order_is_the_conversations),
    (DROPPING, the_budget_holds),
    (DROPPING_SOME | SHORTENING, what_is_not_enough_is_still_less),
    (SHORTENING, a_changed_message_keeps_who_it_is_and_loses_its_foreign_form),
    (DROPPING | DROPPING_SOME, reasons_are_true),
]


@settings(max_examples=40)
@given(conversations(), budgets)
def test_every_rule_holds_for_what_each_strategy_leaves(messages, budget):
    """The given conversation is not modified."""
    before = [replace(message) for message in messages]
    for name, result in results(EVERY, messages, budget):
        assert messages == before
        for names, rule in RULES:
            if name in names:
                rule(messages, budget, result)


@given(conversations(), st.integers(0, 3))
def test_what_fits_is_returned_as_it_is(messages, to_spare):
    for _, result in results(EVERY, messages, sum(map(cost, messages)) + to_spare):
        assert [id(message) for message in result.messages] == [id(message) for message in messages]
        assert not result.dropped
        assert not result.changed


@given(conversations(), budgets)
def test_compressing_a_result_again_changes_nothing(messages, budget):
    for name, result in results(EVERY, messages, budget):
        assert compressed(name, messages, budget) == result
        again = compressed(name, list(result.messages), budget)
        assert again.messages == result.messages
        assert not again.dropped


@given(conversations(), budgets)
def test_each_message_is_counted_once(messages, budget):
    counted: list[Message] = []

    def count(message: Message) -> int:
        counted.append(message)  # keeps it alive, so that its id() stays unique
        return cost(message)

    for name, strategy_ in EVERY.items():
        note(f"strategy: {name}")
        counted.clear()
        strategy_.compress(messages, max_tokens=budget, count=count)
        calls = Counter(map(id, counted))
        assert all(calls[id(message)] == 1 for message in messages)


@every
def test_wrong_budgets_are_refused_and_an_empty_list_stays_empty(name):
    for value in (-1, 1.5, True, None, "3"):
        with pytest.raises(InvalidInputError, match="max_tokens"):
            EVERY[name].compress([], max_tokens=value, count=cost)
    assert compressed(name, [], 0).messages == ()
