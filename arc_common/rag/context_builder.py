"""ContextBuilder: packs documents into a token budget."""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from arc_common.context import Omission
from arc_common.documents import Document, ScoredDocument, checked_items
from arc_common.exceptions import InvalidInputError, check_whole
from arc_common.prompts.context import DOCUMENT_SEPARATOR, render_passage
from arc_common.protocols import TokenCounter
from arc_common.text.sentences import sentence_spans
from arc_common.tokens.budget import usable_tokens

if TYPE_CHECKING:
    from arc_common.settings import ArcSettings


_WORD = re.compile(
    r"""(?:(?<!\w)[-−](?=\d))?             # a number below zero
    \w+(?:['’]\w+|(?<=\d)[^\w\s](?=\d)\w+)*  # 3.5 is neither 3-5 nor 3:5
    (?:[#−-](?!\w))?                      # C# is not C, and a rating of A- is not A
    |[^\w\s]""",
    re.VERBOSE,
)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_EMPTY_WORDS = frozenset(["a", "an", "the", "and", "also", "that", "which", "please", "`"])
"""Words that don't change a sentence's meaning. Common stop word lists are too long: most include "not", "may" and
"must", "before" and "after", "you" and "we"."""


def wording(text: str) -> tuple[str, ...]:
    """Return a text's wording, in order: words, numbers, and signs other than punctuation (currencies, arrows).

    Two texts with the same wording are copies of each other. A text of punctuation alone stands for itself.
    """
    normalised = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    words = _WORD.findall(_THOUSANDS.sub("", normalised))
    return tuple(word for word in words if word not in _EMPTY_WORDS and not _is_punctuation(word)) or (normalised,)


def _is_punctuation(word: str) -> bool:
    return len(word) == 1 and word != "%" and unicodedata.category(word)[0] == "P"


DocumentOrder = Literal["score", "source", "lost-in-the-middle"]


def ordered(documents: Sequence[ScoredDocument], order: DocumentOrder) -> list[int]:
    """Return the places of documents, given best first, in the order in which they are shown."""
    places = range(len(documents))
    if order == "lost-in-the-middle":
        return [*places[::2], *reversed(places[1::2])]
    if order == "source":
        first: dict[object, int] = {}
        for place, found in enumerate(documents):
            first.setdefault(_source(found), place)
        return sorted(places, key=lambda place: (first[_source(documents[place])], _position(documents[place]), place))
    return list(places)


def _source(found: ScoredDocument) -> object:
    """Return the document's group: its parent document, else its source, else itself."""
    whole = found.document.metadata.get("document_id")
    return whole if isinstance(whole, str) else found.document.source or id(found)


def _position(found: ScoredDocument) -> float:
    start: Any = found.document.metadata.get("chunk_start")
    return start if isinstance(start, int | float) else float("inf")


def furthest(first: int, stop: int, guess: int, *, fits: Callable[[int], bool]) -> int | None:
    """Return the last place in `first` to `stop - 1` that fits, if all that fit precede all that don't."""
    low, high = first - 1, stop  # low fits, high doesn't
    step, place = 1, min(max(guess, first), stop - 1)
    while high - low > 1:
        if fits(place):
            low, place = place, place + step
        else:
            high, place = place, place - step
        step *= 2
        if not low < place < high:
            place = (low + high) // 2
    return low if low >= first else None


TOO_LARGE = "no room for it"
DUPLICATE = "says what another document says"
SHORTENED = "shortened"
"""Reasons why a document is not shown, or not in full."""

_CUT_MARK = " …"

_DOUBT = 4
"""The most tokens that joining two texts may add or save."""


@dataclass(frozen=True, slots=True)
class RagContext:
    """The documents found for a question, as a model sees them.

    Contexts are equal if they show the same; `RagContext.EMPTY` shows nothing.

    Args:
        context: The text: each document under its source, with a separator between two of them.
        documents: The documents shown, in order (a citation's number is the place here, from 1); a shortened one has
            the text shown, and `truncated` in its metadata.
        total_tokens: The tokens of `context`, under the counter that built it.
        omissions: Documents that were found but are not shown, or not in full.
        notes: Failures that did not stop the retrieval.
    """

    context: str = ""
    documents: tuple[ScoredDocument, ...] = ()
    total_tokens: int = 0
    omissions: tuple[Omission, ...] = field(default=(), compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)

    EMPTY: ClassVar["RagContext"]

    @property
    def has_documents(self) -> bool:
        """Return whether the context shows any document."""
        return bool(self.documents)


RagContext.EMPTY = RagContext()


class ContextBuilder:
    """Packs documents into a token budget, best first.

    - The context never exceeds its limit, sources and separators included; if the counter states an error
      (`relative_error`), that share is kept free.
    - Documents are chosen by score (equal ones in the order given, those without a score last). A copy of a better
      document, up to articles, punctuation and case, is left out. A document that does not fit is skipped, cut at the
      end of a sentence, or ends the context, as the settings say.
    - Markers, separators and source lines in texts and sources are escaped. The documents given are not changed.

    Args:
        order: The order of the documents in the context (see `ordered`).
        citations: Number each document, from `[1]`.
        skip_oversized: Skip a document that does not fit; otherwise, show no document after it.
        truncate: Cut a document that does not fit to the remaining room, by whole sentences, before later
            ones are considered.
    """

    def __init__(
        self,
        token_counter: TokenCounter,
        *,
        max_tokens: int = 4_000,
        order: DocumentOrder = "score",
        citations: bool = False,
        skip_oversized: bool = True,
        truncate: bool = False,
    ) -> None:
        if not isinstance(token_counter, TokenCounter):
            raise InvalidInputError("token_counter", token_counter, "an object with name, count and count_batch")
        if not isinstance(order, str) or order not in get_args(DocumentOrder):
            raise InvalidInputError("order", order, f"one of {', '.join(get_args(DocumentOrder))}")
        self._counter = token_counter
        self._max_tokens = check_whole("max_tokens", max_tokens, least=0)
        self._order: DocumentOrder = order
        self._citations = citations
        self._skip = skip_oversized
        self._truncate = truncate

    @classmethod
    def from_settings(
        cls, token_counter: TokenCounter, settings: "ArcSettings", *, citations: bool = False
    ) -> "ContextBuilder":
        """Create a builder with the values of the settings' `rag` section."""
        rag = settings.rag
        return cls(
            token_counter,
            max_tokens=rag.max_context_tokens,
            order=rag.document_order,
            citations=citations,
            skip_oversized=rag.skip_oversized,
            truncate=rag.truncate_documents,
        )

    def build(self, documents: Sequence[ScoredDocument | Document], *, max_tokens: int | None = None) -> RagContext:
        """Return the context that shows the documents; one equal to `RagContext.EMPTY` if none fits.

        The documents may come in any order. `max_tokens` takes the place of the builder's limit.

        Raises:
            InvalidInputError: A document is of the wrong kind, or `max_tokens` is not a number of tokens.
        """
        most = usable_tokens(
            self._max_tokens if max_tokens is None else check_whole("max_tokens", max_tokens, least=0), self._counter
        )
        ranked = _ranked(documents)
        packing = _Packing(self._counter, most, self._order, citations=self._citations)
        seen: set[tuple[str, ...]] = set()
        omissions: list[Omission] = []
        for place, (found, tokens) in enumerate(packing.sized(ranked)):
            if (words := wording(found.document.text)) in seen:
                omissions.append(_omission(found, tokens, DUPLICATE))
                continue
            if packing.has_room(found, tokens):
                packing.add(found, tokens)
            elif self._truncate and (part := packing.shortened(found, tokens)) is not None:
                packing.add(*part)
                omissions.append(_omission(found, max(0, tokens - part[1]), SHORTENED))
            elif self._skip:
                omissions.append(_omission(found, tokens, TOO_LARGE))
                continue
            else:
                omissions += [_omission(*left, TOO_LARGE) for left in packing.sized(ranked[place:])]
                break
            seen.add(words)
        shown, context, total = packing.finish()
        omissions += [_omission(*left, TOO_LARGE) for left in packing.dropped]
        if not shown and not omissions:
            return RagContext.EMPTY
        return RagContext(context, shown, total, tuple(omissions))


class _Packing:
    """The documents shown so far, best first."""

    def __init__(self, counter: TokenCounter, most: int, order: DocumentOrder, *, citations: bool) -> None:
        self._counter = counter
        self._most = most
        self._order = order
        self._citations = citations
        self._separator = counter.count(DOCUMENT_SEPARATOR)
        self._kept: list[tuple[ScoredDocument, int]] = []
        self._sum = 0
        self.dropped: list[tuple[ScoredDocument, int]] = []

    def sized(self, documents: Sequence[ScoredDocument]) -> Iterator[tuple[ScoredDocument, int]]:
        """Return each document with the tokens that it takes alone."""
        number = len(documents) if self._citations else None
        sizes = self._counter.count_batch([render_passage(found.document, number=number) for found in documents])
        return zip(documents, sizes, strict=True)

    def has_room(self, found: ScoredDocument, tokens: int) -> bool:
        """Return whether the document fits beside those that are shown."""
        together = self._sum + tokens + (self._separator if self._kept else 0)
        doubt = _DOUBT * (len(self._kept) + 1)
        if abs(together - self._most) > doubt:
            return together < self._most
        return self._fits([*(kept for kept, _ in self._kept), found])

    def add(self, found: ScoredDocument, tokens: int) -> None:
        """Show a document after the others."""
        self._sum += tokens + (self._separator if self._kept else 0)
        self._kept.append((found, tokens))

    def shortened(self, found: ScoredDocument, tokens: int) -> tuple[ScoredDocument, int] | None:
        """Cut the document to as many first sentences as fit; return it with its tokens."""
        text = found.document.text
        ends = [end for _, end in sentence_spans(text)][:-1]
        before = [kept for kept, _ in self._kept]
        last = furthest(
            0,
            len(ends),
            len(ends) * max(0, self._most - self._sum) // max(1, tokens),
            fits=lambda place: self._fits([*before, _cut(found, ends[place])]),
        )
        if last is None:
            return None
        shown = _cut(found, ends[last])
        ((_, size),) = self.sized([shown])
        return shown, size

    def finish(self) -> tuple[tuple[ScoredDocument, ...], str, int]:
        """Return the documents in the order shown, the text, and its tokens."""
        while self._kept:
            documents = [kept for kept, _ in self._kept]
            context = self._render(documents)
            tokens = self._counter.count(context)
            if tokens <= self._most:
                return tuple(documents[place] for place in ordered(documents, self._order)), context, tokens
            self.dropped.append(self._kept.pop())
        return (), "", 0

    def _fits(self, documents: Sequence[ScoredDocument]) -> bool:
        return self._counter.count(self._render(documents)) <= self._most

    def _render(self, documents: Sequence[ScoredDocument]) -> str:
        return DOCUMENT_SEPARATOR.join(
            render_passage(documents[place].document, number=number if self._citations else None)
            for number, place in enumerate(ordered(documents, self._order), 1)
        )


def _ranked(documents: Sequence[ScoredDocument | Document]) -> list[ScoredDocument]:
    """Return the documents with any text, best first."""
    given: list[ScoredDocument | Document] = checked_items(
        "documents", documents, (ScoredDocument, Document), expected="documents, with scores or without"
    )
    found = [entry if isinstance(entry, ScoredDocument) else ScoredDocument(entry) for entry in given]
    found = [entry for entry in found if entry.document.text.strip()]
    return sorted(found, key=lambda entry: float("inf") if entry.score is None else -entry.score)


def _cut(found: ScoredDocument, end: int) -> ScoredDocument:
    document = found.document
    metadata = {**document.metadata, "truncated": True}
    return replace(found, document=replace(document, text=document.text[:end] + _CUT_MARK, metadata=metadata))


def _omission(found: ScoredDocument, tokens: int, reason: str) -> Omission:
    return Omission("document", found.document.id or found.document.source, tokens, reason, found.score_parts)
