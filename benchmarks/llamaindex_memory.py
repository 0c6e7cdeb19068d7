"""Measure the time of `get` of arc's and of LlamaIndex's chat memory as the conversation grows.

    python benchmarks/llamaindex_memory.py [--sizes 50 1000 5000] [--limit 3000]

Both memories get the same messages (about 60 tokens each) and the same token limit. LlamaIndex's `ChatMemoryBuffer`
counts with its default tokenizer and keeps messages in memory (`SimpleChatStore`). Arc's counts with its default
counter and keeps them in a SQLite file. Times are medians of 200 calls, or of as many as fit into a second; at 5,000
messages, upstream takes minutes for its single call.
"""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.memory import ChatMemoryBuffer

from llamaindex_arc import ArcChatMemoryBuffer, open_engine

_TEXT = (
    "Regarding order {n}: the parcel left the warehouse on Tuesday, the carrier scanned it in Leipzig at 14:05, and "
    "the customer asked twice whether the replacement charger (part 7731-{n}) ships with it or must be ordered apart."
)
_ENOUGH_SECONDS = 1.0
_ENOUGH_CALLS = 200


def main() -> None:
    """Measure each size and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[50, 1_000, 5_000], help="messages stored")
    parser.add_argument("--limit", type=int, default=3_000, help="token_limit of both memories")
    arguments = parser.parse_args()
    print(f"{'messages':>8}  {'upstream ms':>12}  {'arc ms':>8}  {'ratio':>9}  {'messages returned':>18}")
    for size in arguments.sizes:
        messages = _conversation(size)
        upstream = ChatMemoryBuffer.from_defaults(chat_history=messages, token_limit=arguments.limit)
        with tempfile.TemporaryDirectory() as folder, open_engine(f"sqlite:///{Path(folder) / 'memory.db'}") as engine:
            arc = ArcChatMemoryBuffer.from_defaults(engine=engine, session_id="bench", token_limit=arguments.limit)
            arc.put_messages(messages)
            theirs, returned_by_theirs = _median_ms(upstream.get)
            ours, returned_by_ours = _median_ms(arc.get)
        returned = f"{len(returned_by_theirs)} / {len(returned_by_ours)}"
        print(f"{size:>8,}  {theirs:>12,.2f}  {ours:>8.2f}  {theirs / ours:>8,.1f}x  {returned:>18}")


def _conversation(size: int) -> list[ChatMessage]:
    roles = (MessageRole.USER, MessageRole.ASSISTANT)
    return [ChatMessage(role=roles[n % 2], content=_TEXT.format(n=n)) for n in range(size)]


def _median_ms(get: Callable[[], list[ChatMessage]]) -> tuple[float, list[ChatMessage]]:
    taken: list[float] = []
    while len(taken) < _ENOUGH_CALLS and sum(taken) < _ENOUGH_SECONDS:
        start = perf_counter()
        returned = get()
        taken.append(perf_counter() - start)
    return median(taken) * 1_000, returned


if __name__ == "__main__":
    main()
