"""Summaries by a model: one call for a segment, checked for form, with facts that point at their messages."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from rapidfuzz import fuzz

from arc_common.exceptions import ModelCallError, SummaryFailedError
from arc_common.facts import Fact, ProposedFact
from arc_common.messages import Message, Role
from arc_common.model_calls import GuardedChatModel
from arc_common.observability import Observer, SilentObserver
from arc_common.prompts import (
    ParsedSummary,
    SummaryFormatError,
    parse_narrative,
    parse_summary,
    render_block_request,
    render_correction,
    render_era_request,
    render_leaf_request,
)
from arc_common.protocols import ChatModel, TokenCounter
from arc_common.text import analyze
from arc_common.text.sentences import sentences_of

if TYPE_CHECKING:
    from arc_common.settings import ArcSettings

__all__ = ["ModelSummarizer", "SegmentSummary", "Summarizer", "cut_to_tokens", "with_sources"]

_MAX_SOURCES = 3

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SegmentSummary:
    """What a summariser says of a segment.

    Args:
        narrative: What happened, within its ceiling; never empty.
        facts: What a leaf established, each with its sources.
        removed_keys: The keys of known facts that no longer hold.
        model_calls: How often a model was asked for it.
        tokens_sent: What those requests had together.
    """

    narrative: str
    facts: tuple[ProposedFact, ...] = ()
    removed_keys: tuple[str, ...] = ()
    model_calls: int = 0
    tokens_sent: int = 0


class Summarizer(Protocol):
    """Summarises segments. Called from any thread; takes as long as it takes."""

    def leaf(self, messages: Sequence[Message], *, related: Sequence[Fact]) -> SegmentSummary:
        """Facts and narrative of messages that were never summarised; `related` are known facts they may change.

        Raises:
            SummaryFailedError: There is no summary that can be used.
        """

    def block(self, messages: Sequence[Message]) -> SegmentSummary:
        """The narrative of four leaves, from their originals. Raises as `leaf`."""

    def era(self, narratives: Sequence[str]) -> SegmentSummary:
        """One narrative in place of many. Raises as `leaf`."""


class ModelSummarizer:
    """Has a chat model write summaries.

    - The conversation is shown as data between markers; what users write in it does nothing to the form asked for.
    - An answer that is no summary, or an empty one, is sent back once with the reason. A second one is a failure.
    - Calls end in time, are retried, and stop while the model is down (see `GuardedChatModel`).
    - A narrative longer than its ceiling is cut at the end of a sentence.
    - Counts `summary.reasks` besides what `GuardedChatModel` counts under `summary`.

    Args:
        chat_model: The model.
        settings: The knobs (`summary`, `model_calls`).
        token_counter: Counts narratives and requests.
        observer: Receives counts.
        pause_seconds: Before a failed call is tried again.
    """

    def __init__(
        self,
        chat_model: ChatModel,
        *,
        settings: "ArcSettings",
        token_counter: TokenCounter,
        observer: Observer | None = None,
        pause_seconds: float = 0.5,
    ) -> None:
        self._observer = observer or SilentObserver()
        self._model = GuardedChatModel(
            chat_model, settings=settings, observer=self._observer, name="summary", pause_seconds=pause_seconds
        )
        self._settings = settings.summary
        self._counter = token_counter

    def leaf(self, messages: Sequence[Message], *, related: Sequence[Fact] = ()) -> SegmentSummary:
        """Facts and narrative of messages that were never summarised, by one call.

        Args:
            messages: The originals.
            related: Known facts that these messages may change.

        Raises:
            SummaryFailedError: The model failed, or gave no summary twice.
        """
        most = self._settings.leaf_narrative_tokens
        parsed, calls, tokens = self._ask(
            render_leaf_request(messages, related=related, max_tokens=most), _whole_summary
        )
        return SegmentSummary(
            narrative=self._cut(parsed.narrative, most),
            facts=tuple(with_sources(parsed.facts, messages)),
            removed_keys=parsed.removed_keys,
            model_calls=calls,
            tokens_sent=tokens,
        )

    def block(self, messages: Sequence[Message]) -> SegmentSummary:
        """The narrative of four leaves, from their originals. Raises as `leaf`."""
        most = self._settings.block_narrative_tokens
        return self._narrative(render_block_request(messages, max_tokens=most), most)

    def era(self, narratives: Sequence[str]) -> SegmentSummary:
        """One narrative in place of many. Raises as `leaf`."""
        most = self._settings.era_narrative_tokens
        return self._narrative(render_era_request(narratives, max_tokens=most), most)

    def _narrative(self, request: list[Message], most: int) -> SegmentSummary:
        narrative, calls, tokens = self._ask(request, parse_narrative)
        return SegmentSummary(self._cut(narrative, most), model_calls=calls, tokens_sent=tokens)

    def _ask(self, request: list[Message], parse: Callable[[str], T]) -> tuple[T, int, int]:
        """What the answer says, after at most one correction; how many calls it took, and the tokens sent."""
        tokens = self._tokens(request)
        try:
            answer = self._model.complete(request)
            try:
                return parse(answer), 1, tokens
            except SummaryFormatError as error:
                self._observer.count("summary.reasks")
                again = render_correction(request, answer, str(error))
            return parse(self._model.complete(again)), 2, tokens + self._tokens(again)
        except (ModelCallError, SummaryFormatError) as error:
            raise SummaryFailedError(f"no summary: {error}") from error

    def _cut(self, narrative: str, most: int) -> str:
        if cut := cut_to_tokens(narrative, most, self._counter.count):
            return cut
        raise SummaryFailedError(f"no summary: none fits {most} tokens")

    def _tokens(self, request: Sequence[Message]) -> int:
        return sum(self._counter.count(message.text) for message in request)


def _whole_summary(answer: str) -> ParsedSummary:
    parsed = parse_summary(answer)
    if not parsed.narrative:
        raise SummaryFormatError('"narrative" is missing or empty')
    return parsed


def with_sources(facts: Sequence[ProposedFact], messages: Sequence[Message]) -> list[ProposedFact]:
    """The facts, each with the ids of the messages that say it.

    - Those that together have the most of its value's terms, rare ones above all: at most three. Of equally good ones
      the user's is taken, then the one that has the words in the same order, then the earlier.
    - Where no message shares a term with its value, its key decides; then it is all of the user's messages, or all.
    - Messages without ids can't be pointed at.
    """
    known = [message for message in messages if message.id is not None]
    terms_of = [frozenset(analyze(message.text)) for message in known]
    spread = Counter(term for terms in terms_of for term in terms)
    weight = {term: math.log(1 + len(known) / count) for term, count in spread.items()}
    users = [message for message in known if message.role is Role.USER]
    anybody = tuple(message.id for message in users or known if message.id is not None)

    def said_by(text: str) -> tuple[str, ...]:
        wanted = set(analyze(text)) & weight.keys()
        chosen: list[int] = []
        enough = 0.2 * sum(weight[term] for term in wanted)
        while wanted and len(chosen) < _MAX_SOURCES:
            gains = [sum(weight[term] for term in sorted(wanted & terms)) for terms in terms_of]
            most = max(gains)
            equal = [i for i in range(len(known)) if gains[i] == most]
            near = {i: _nearness(text, known[i].text) if len(equal) > 1 else 0.0 for i in equal}
            best = max(equal, key=lambda i: (known[i].role is Role.USER, near[i], -i))
            if chosen and gains[best] < enough:
                break
            chosen.append(best)
            wanted -= terms_of[best]
        return tuple(message_id for i in sorted(chosen) if (message_id := known[i].id) is not None)

    return [replace(fact, sources=said_by(fact.value) or said_by(fact.key) or anybody) for fact in facts]


def _nearness(text: str, message: str) -> float:
    """How near a stretch of a message comes to a text, from 0 to 100, which is the text itself."""
    return fuzz.partial_ratio(" ".join(text.casefold().split()), " ".join(message.casefold().split()))


def cut_to_tokens(text: str, most: int, count: Callable[[str], int]) -> str:
    """The text up to the last sentence that fits; where not even the first does, as much of it as fits, and "…"."""
    if count(text) <= most:
        return text
    kept = ""
    for sentence in sentences_of(text):
        longer = f"{kept} {sentence}".lstrip()
        if count(longer) > most:
            break
        kept = longer
    if kept:
        return kept
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(f"{text[:middle].rstrip()}…") <= most else (low, middle - 1)
    cut = text[:low].rstrip()
    return f"{cut[: cut.rfind(' ')] if ' ' in cut else cut}…" if cut else ""
