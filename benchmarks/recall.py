"""Measure the share of a question's evidence that recall finds, and the share that the context shows within a budget.

    OMP_NUM_THREADS=1 python benchmarks/recall.py --data PATH… [--conversations 40] [--vectors FILE]
        [--budgets 800 2000 4000] [--only NAME…] [--without-embedder]

PATH: files of the shared data: recall_locomo, recall_longmemeval (questions with the turns that answer them), facts_sgd
and facts_crosswoz (questions for a value that was said once). Each conversation of a file belongs to one user, each of
its dates or dialogues is a session. Questions are asked in a new session.

- "@k": the share of a question's evidence turns among the first k results.
- "all@10": the share of questions whose whole evidence is among the first ten.
- "in N": the share of evidence turns that the context contains within N tokens; for facts_*, the share of values that
  it contains within 600 tokens, ignoring case. Arc's context is the memory section of `session.context` (an excerpt of
  a message over 1,200 characters counts as the message). The others show as many of their best turns as fit, as lines.
- "shown N": the share of the evidence's shingles (four consecutive terms of the analyser) in that text.
- "precise N": the share of the messages in that text that are evidence; "waste N": the share of its shingles that occur
  earlier in it.

Contestants: the newest turns ("window"); BM25 over single turns with stemming and stop words (bm25s, Lucene's formula);
cosine similarity of single turns ("dense"); the sum of both scores, scaled to 0 to 1 ("BM25 + dense"); LlamaIndex's
`VectorMemoryBlock` on a store in memory; arc without an embedder and with it. All share the embedder (MiniLM in numpy,
see minilm.py) and the counter (o200k_base). `--vectors` keeps the vectors, which take most of the time. Arc's long-term
memories are off, so that recall alone is measured. All figures are counts, not times.
"""

import argparse
import asyncio
import gzip
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

import bm25s
import numpy as np
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import VectorMemoryBlock
from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores.types import BasePydanticVectorStore, VectorStoreQuery, VectorStoreQueryResult
from minilm import MiniLM
from numpy.typing import NDArray
from pydantic import PrivateAttr
from rich.console import Console
from rich.table import Table

from arc_common import ArcSettings, ContextEngine, Message, Role, SectionBudget, TiktokenCounter, TokenBudget
from arc_common.text import analyze, analyze_query
from arc_common.text.analyzer import content_words

KS = (5, 10, 25, 50)
DEPTH = max(KS)
_LONG_ANSWER = 1_200
_ABOUT_ANSWERS = 8
_WORDS = 8


@dataclass(frozen=True)
class Question:
    """A question with the ids of its evidence, or the value that answers it."""

    text: str
    category: str
    evidence: frozenset[str] = frozenset()
    value: str | None = None


@dataclass(frozen=True)
class Conversation:
    """The sessions of one user, oldest first, and questions about them."""

    sessions: Sequence[tuple[str, Sequence[Message]]]
    questions: Sequence[Question]

    @property
    def messages(self) -> list[Message]:
        """All messages, oldest first."""
        return [message for _, messages in self.sessions for message in messages]


def conversations(path: Path) -> Iterator[Conversation]:
    """Yield the conversations of a file that have questions."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        data = json.load(file)
    read = _locomo if "locomo" in path.name else _longmemeval if "longmemeval" in path.name else _facts
    for one in data:
        conversation = read(one)
        if conversation.questions:
            yield conversation


def about_long_answers(conversation: Conversation) -> list[Question]:
    """Return questions about answers over 1,200 characters, made of words of the user's messages before them."""
    pairs = [
        (asked.text, answer.id or "")
        for _, messages in conversation.sessions
        for asked, answer in pairwise(messages)
        if asked.role is Role.USER and answer.role is Role.ASSISTANT and len(answer.text) > _LONG_ANSWER
    ]
    questions = []
    for text, name in pairs[:: max(len(pairs) // _ABOUT_ANSWERS, 1)][:_ABOUT_ANSWERS]:
        words = list(dict.fromkeys(content_words(text)))[:_WORDS]
        questions.append(Question(f"What did you tell me about {' '.join(words)}?", "long answers", frozenset([name])))
    return questions


def _locomo(one: Mapping[str, Any]) -> Conversation:
    sessions: dict[str, list[Message]] = {}
    first = one["turns"][0]["speaker"]
    for turn in one["turns"]:
        when = turn["date"].replace(" am ", " AM ").replace(" pm ", " PM ")
        at = datetime.strptime(when, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        role = "user" if turn["speaker"] == first else "assistant"
        message = Message(role, turn["text"], id=turn["id"], name=turn["speaker"], created_at=at)
        sessions.setdefault(str(turn["session"]), []).append(message)
    questions = [
        Question(asked["question"], asked["category"], frozenset(asked["evidence"]))
        for asked in one["questions"]
        if asked["category"] != "adversarial" and asked["evidence"]
    ]
    return Conversation(list(sessions.items()), questions)


def _longmemeval(one: Mapping[str, Any]) -> Conversation:
    sessions, evidence = [], set()
    for session in sorted(one["sessions"], key=lambda session: session["date"]):
        at = datetime.strptime(session["date"], "%Y/%m/%d (%a) %H:%M").replace(tzinfo=UTC)
        messages = []
        for place, turn in enumerate(session["turns"]):
            if turn["content"].strip():
                name = f"{session['id']}:{place}"
                messages.append(Message(turn["role"], turn["content"], id=name, created_at=at))
                if turn.get("evidence"):
                    evidence.add(name)
        if messages:
            sessions.append((session["id"], messages))
    asked = [Question(one["question"], one["type"], frozenset(evidence))] if evidence else []
    return Conversation(sessions, asked)


def _facts(one: Mapping[str, Any]) -> Conversation:
    sessions: dict[str, list[Message]] = {}
    for place, turn in enumerate(one["turns"]):
        sessions.setdefault(str(turn["dialogue"]), []).append(Message(turn["role"], turn["text"], id=f"t{place}"))
    asked = [Question(probe["question"], "values", value=str(probe["value"])) for probe in one["probes"]]
    return Conversation(list(sessions.items()), asked)


class KeptVectors:
    """An embedder that caches another one's vectors in a file."""

    name = MiniLM.name

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._model = MiniLM()
        self._known: dict[str, Any] = {}
        if path is not None and path.exists():
            with np.load(path) as stored:
                self._known = dict(zip(stored["names"].tolist(), stored["vectors"], strict=True))

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the texts' vectors, from the cache where possible."""
        names = [sha256(text.encode()).hexdigest()[:24] for text in texts]
        new = {name: text for name, text in zip(names, texts, strict=True) if name not in self._known}
        if new:
            self._known.update(zip(new, self._model.embed(list(new.values())).astype(np.float16), strict=True))
        return [self._known[name].astype(np.float32).tolist() for name in names]

    def save(self) -> None:
        """Write the cache to the file."""
        if self._path is not None and self._known:
            np.savez(self._path, names=np.array(list(self._known)), vectors=np.array(list(self._known.values())))


def _best(scores: NDArray[np.float32]) -> list[int]:
    """Return the places by descending score, equal scores in their order."""
    places: list[int] = np.argsort(-scores, kind="stable").tolist()
    return places


def _scaled(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale the scores linearly to 0 to 1."""
    spread = scores.max() - scores.min()
    return (scores - scores.min()) / spread if spread else np.zeros_like(scores)


class LlamaIndexEmbedding(BaseEmbedding):
    """The shared embedder as a LlamaIndex embedding model."""

    _embedder: KeptVectors = PrivateAttr()

    def __init__(self, embedder: KeptVectors) -> None:
        super().__init__(model_name=embedder.name)
        self._embedder = embedder

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._embedder.embed([text])[0]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._embedder.embed([query])[0]

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._embedder.embed([query])[0]


class NodesInMemory(BasePydanticVectorStore):
    """A minimal vector store for `VectorMemoryBlock`: cosines over all nodes."""

    stores_text: bool = True
    _nodes: list[BaseNode] = PrivateAttr(default_factory=list)

    @property
    def client(self) -> None:
        """No client, since the nodes are in memory."""
        return

    def add(self, nodes: Sequence[BaseNode], **_: Any) -> list[str]:
        """Store nodes."""
        self._nodes += nodes
        return [node.node_id for node in nodes]

    @property
    def newest(self) -> str:
        """The text of the newest node."""
        return self._nodes[-1].get_content()

    def delete(self, ref_doc_id: str, **_: Any) -> None:
        """Raise: the benchmark deletes nothing."""
        raise NotImplementedError

    def query(self, query: VectorStoreQuery, **_: Any) -> VectorStoreQueryResult:
        """Return the nodes nearest to the query."""
        matrix = np.array([node.get_embedding() for node in self._nodes], dtype=np.float32)
        similarities = matrix @ np.array(query.query_embedding, dtype=np.float32)
        best = np.argsort(-similarities, kind="stable")[: query.similarity_top_k]
        nodes = [self._nodes[place] for place in best]
        return VectorStoreQueryResult(nodes, similarities[best].tolist(), [node.node_id for node in nodes])


Ask = Callable[[Question], tuple[Sequence[str], Mapping[int, tuple[frozenset[str], str]]]]
"""Answers a question: message ids, best first, and for each budget the ids and the text shown."""


class Peers:
    """The contestants that rank single turns and show as many as fit."""

    def __init__(self, conversation: Conversation, counter: TiktokenCounter, budgets: Sequence[int]) -> None:
        self.messages = conversation.messages
        self.ids = [message.id or "" for message in self.messages]
        self._texts = [f"{m.name or m.role.value}: {m.text}" for m in self.messages]
        self._tokens = counter.count_batch(self._texts)
        self._budgets = budgets

    def shown(self, places: Sequence[int]) -> tuple[Sequence[str], Mapping[int, tuple[frozenset[str], str]]]:
        """Return the ids, and for each budget the ids and text of the best turns that fit."""
        fitting = {}
        for budget in self._budgets:
            chosen, left = [], budget
            for place in places:
                if self._tokens[place] <= left:
                    chosen.append(place)
                    left -= self._tokens[place]
            text = "\n".join(self._texts[place] for place in chosen)
            fitting[budget] = frozenset(self.ids[place] for place in chosen), text
        return [self.ids[place] for place in places[:DEPTH]], fitting

    def window(self) -> Ask:
        """Rank the newest turns first."""
        places = list(range(len(self.messages)))[::-1]
        return lambda _: self.shown(places)

    def bm25(self) -> Ask:
        """Rank single turns by BM25."""
        score = self._bm25_scores()

        def ask(question: Question) -> tuple[Sequence[str], Mapping[int, tuple[frozenset[str], str]]]:
            scores = score(question)
            return self.shown([place for place in _best(scores) if scores[place] > 0])

        return ask

    def dense(self, embedder: KeptVectors) -> Ask:
        """Rank single turns by cosine similarity."""
        score = self._cosines(embedder)
        return lambda question: self.shown(_best(score(question)))

    def both(self, embedder: KeptVectors) -> Ask:
        """Rank single turns by the sum of both scores, each scaled to 0 to 1."""
        parts = self._bm25_scores(), self._cosines(embedder)
        return lambda question: self.shown(_best(sum(_scaled(score(question)) for score in parts)))

    def _bm25_scores(self) -> Callable[[Question], NDArray[np.float32]]:
        index = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
        index.index([analyze(text) or [""] for text in self._texts], show_progress=False)

        def scores(question: Question) -> NDArray[np.float32]:
            terms = [term for term in analyze_query(question.text) if term in index.vocab_dict]
            return index.get_scores(terms) if terms else np.zeros(len(self.ids), dtype=np.float32)

        return scores

    def _cosines(self, embedder: KeptVectors) -> Callable[[Question], NDArray[np.float32]]:
        matrix = np.array(embedder.embed(self._texts), dtype=np.float32)
        return lambda question: matrix @ np.array(embedder.embed([question.text])[0], dtype=np.float32)

    def vector_memory_block(self, conversation: Conversation, embedder: KeptVectors) -> Ask:
        """Rank by LlamaIndex's block, which stores each put of messages as one text."""
        store = NodesInMemory()
        model = LlamaIndexEmbedding(embedder)
        block = VectorMemoryBlock(vector_store=store, embed_model=model)
        by_text: dict[str, set[str]] = defaultdict(set)
        for _, messages in conversation.sessions:
            for start in range(0, len(messages), 2):  # a chat engine puts one turn at a time
                turn = messages[start : start + 2]
                asyncio.run(
                    block.aput(
                        [ChatMessage(role=m.role.value, content=f"{m.name or m.role.value}: {m.text}") for m in turn]
                    )
                )
                by_text[store.newest] |= {m.id or "" for m in turn}

        def ask(question: Question) -> tuple[Sequence[str], Mapping[int, tuple[frozenset[str], str]]]:
            query = VectorStoreQuery(model.get_query_embedding(question.text), similarity_top_k=DEPTH * 4)
            nodes = store.query(query).nodes or []
            ids = [name for node in nodes for name in sorted(by_text[node.get_content()])]
            places = {name: place for place, name in enumerate(self.ids)}
            return self.shown([places[name] for name in dict.fromkeys(ids)])

        return ask


def arc(
    conversation: Conversation, counter: TiktokenCounter, budgets: Sequence[int], embedder: KeptVectors | None
) -> tuple[Ask, Callable[[], None]]:
    """Return arc's `Ask`, from `session.recall` and `session.context`, and the function that closes its engine."""
    settings = ArcSettings(
        memory={"enabled": False},
        recall={"scope": "user"},
        storage={"max_sessions_in_memory": 100_000},
    )
    engine = ContextEngine.open(embedder=embedder, token_counter=counter, settings=settings)
    for session_id, messages in conversation.sessions:
        engine.session(session_id, user_id="user").append(messages)
    asking = engine.session("asking", user_id="user")
    for session_id, _ in conversation.sessions:
        engine.session(session_id, user_id="user").recall("anything")  # brings the index up to date
    engine.flush(3_600)  # waits for the vectors

    def ask(question: Question) -> tuple[Sequence[str], Mapping[int, tuple[frozenset[str], str]]]:
        found = [one.message.id or "" for one in asking.recall(question.text, top_k=DEPTH)]
        shown = {}
        for budget in budgets:
            room = TokenBudget(sections={"recalled": SectionBudget(max_tokens=budget)})
            window = asking.context(question.text, budget=room)
            section = next(section for section in window.sections if section.name == "recalled")
            if section.tokens > budget:
                raise SystemExit(f"the recalled section has {section.tokens} tokens, over its limit of {budget}")
            items = [item for item in section.items if item.kind == "recalled"]
            shown[budget] = frozenset(i.id or "" for i in items), "\n".join(i.text for i in items)
        return found, shown

    return ask, engine.close


def main() -> None:
    """Ask all questions of each file and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, nargs="+", required=True)
    parser.add_argument("--conversations", type=int, default=1_000, help="of each file, at most")
    parser.add_argument("--vectors", type=Path, help=".npz file that keeps the vectors")
    parser.add_argument("--budgets", type=int, nargs="+", default=[800, 2_000, 4_000])
    parser.add_argument("--only", nargs="+", help="names of contestants")
    parser.add_argument("--without-embedder", action="store_true", help="omit contestants that need one")
    arguments = parser.parse_args()
    counter = TiktokenCounter("o200k_base")
    embedder = None if arguments.without_embedder else KeptVectors(arguments.vectors)
    for path in arguments.data:
        results: dict[str, dict[str, list[tuple[str, float]]]] = defaultdict(lambda: defaultdict(list))
        for number, conversation in enumerate(conversations(path)):
            if number >= arguments.conversations:
                break
            budgets = [600] if conversation.questions[0].value is not None else arguments.budgets
            for name, enter in contestants(conversation, counter, budgets, embedder).items():
                if arguments.only and name not in arguments.only:
                    continue
                ask, close = enter()
                said = {message.id: set(shingles(message.text)) for message in conversation.messages}
                for question in conversation.questions:
                    note(results[name], question, *ask(question), said=said)
                close()
            if embedder is not None:
                embedder.save()
        show(path.name, results)


def shingles(text: str) -> list[tuple[str, ...]]:
    """Return every four consecutive terms within each line."""
    found: list[tuple[str, ...]] = []
    for line in text.splitlines():
        terms = analyze(line)
        found += zip(terms, terms[1:], terms[2:], terms[3:], strict=False)
    return found


def contestants(
    conversation: Conversation, counter: TiktokenCounter, budgets: Sequence[int], embedder: KeptVectors | None
) -> Mapping[str, Callable[[], tuple[Ask, Callable[[], None]]]]:
    """Return for each contestant a function that reads the conversation and returns its `Ask` and `close`."""
    peers = Peers(conversation, counter, budgets)

    def nothing() -> None:
        return

    without: dict[str, Callable[[], tuple[Ask, Callable[[], None]]]] = {
        "window": lambda: (peers.window(), nothing),
        "BM25": lambda: (peers.bm25(), nothing),
        "arc, no embedder": lambda: arc(conversation, counter, budgets, None),
    }
    if embedder is None:
        return without
    return without | {
        "dense": lambda: (peers.dense(embedder), nothing),
        "BM25 + dense": lambda: (peers.both(embedder), nothing),
        "VectorMemoryBlock": lambda: (peers.vector_memory_block(conversation, embedder), nothing),
        "arc": lambda: arc(conversation, counter, budgets, embedder),
    }


def note(
    result: dict[str, list[tuple[str, float]]],
    question: Question,
    found: Sequence[str],
    shown: Mapping[int, tuple[frozenset[str], str]],
    *,
    said: Mapping[str | None, set[tuple[str, ...]]],
) -> None:
    """Add the figures of one question to the columns."""
    wanted = question.evidence
    if wanted:
        for k in KS:
            result[f"@{k}"].append((question.category, len(wanted.intersection(found[:k])) / len(wanted)))
        result["all@10"].append((question.category, float(wanted.issubset(found[:10]))))
    for budget, (ids, text) in shown.items():
        share = (
            len(wanted & ids) / len(wanted) if wanted else float((question.value or "").casefold() in text.casefold())
        )
        result[f"in {budget:,}"].append((question.category, share))
        found_words = shingles(text)
        if words := {shingle for name in wanted for shingle in said[name]}:
            result[f"shown {budget:,}"].append((question.category, len(words.intersection(found_words)) / len(words)))
        if wanted and ids:
            result[f"precise {budget:,}"].append((question.category, len(wanted & ids) / len(ids)))
        if found_words:
            repeated = 1 - len(set(found_words)) / len(found_words)
            result[f"waste {budget:,}"].append((question.category, repeated))


def show(title: str, results: Mapping[str, Mapping[str, Sequence[tuple[str, float]]]]) -> None:
    """Print a table of all questions, and one by category."""
    columns = list(next(iter(results.values())))
    table = Table(title=f"{title}: % of evidence", show_lines=False)
    for column in ("", *columns):
        table.add_column(column, justify="left" if not column else "right")
    for name, by_column in results.items():
        table.add_row(name, *(f"{100 * mean(v for _, v in by_column[column]):.1f}" for column in columns))
    Console().print(table)
    categories = sorted({category for category, _ in next(iter(results.values()))[columns[-1]]})
    if len(categories) > 1:
        shown = [column for column in columns if column == "@10" or column.startswith("in ")]
        table = Table(title=f"{title}: by category ({', '.join(shown)})")
        for column in ("", *categories):
            table.add_column(column, justify="left" if not column else "right")
        for name, by_column in results.items():
            cells = [
                " / ".join(f"{100 * mean(v for c, v in by_column[column] if c == category):.0f}" for column in shown)
                for category in categories
            ]
            table.add_row(name, *cells)
        Console().print(table)


if __name__ == "__main__":
    main()
