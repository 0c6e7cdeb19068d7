"""Measure the size of LangGraph's SQLite checkpoints over a long conversation, with and without `prune_state`.

    pip install langgraph-checkpoint-sqlite
    python -m benchmarks.checkpoints [--turns 1000]

Prints the size of the checkpoint database after each tenth of the turns, in MB, and the seconds for all turns.
"""

import argparse
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import FakeListChatModel
from langgraph.checkpoint.sqlite import SqliteSaver

from langchain_arc import ArcMemoryMiddleware, open_engine

ANSWER = "Order {turn} was sent on Monday and will arrive within three working days. " * 3


def measure(turns: int, *, prune: bool, folder: Path) -> tuple[list[int], float]:
    """Return the database's size in bytes after each tenth of the turns, and the seconds for all turns."""
    sizes = []
    begin = perf_counter()
    with (
        open_engine(f"sqlite:///{folder / f'arc-{prune}.db'}") as engine,
        SqliteSaver.from_conn_string(str(folder / f"checkpoints-{prune}.db")) as saver,
    ):
        middleware = ArcMemoryMiddleware(engine, prune_state=prune)
        agent: Any = create_agent(FakeListChatModel(responses=[ANSWER]), middleware=[middleware], checkpointer=saver)
        config: Any = {"configurable": {"thread_id": "s"}}
        for turn in range(1, turns + 1):
            agent.invoke({"messages": [("user", f"Where is my order ORD-{turn}? I asked for it last week.")]}, config)
            if turn % max(turns // 10, 1) == 0:
                (pages,) = saver.conn.execute("PRAGMA page_count").fetchone()
                (size,) = saver.conn.execute("PRAGMA page_size").fetchone()
                sizes.append(pages * size)
    return sizes, perf_counter() - begin


def main() -> None:
    """Print the sizes with pruning and without."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=1_000)
    turns = parser.parse_args().turns
    with tempfile.TemporaryDirectory() as folder:
        for prune in (True, False):
            sizes, seconds = measure(turns, prune=prune, folder=Path(folder))
            shown = ", ".join(f"{size / 1e6:.1f}" for size in sizes)
            print(f"prune_state={prune}: {shown} MB after each tenth of {turns} turns, {seconds:.0f} s")


if __name__ == "__main__":
    main()
