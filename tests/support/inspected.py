"""An engine with something on every page of the inspector, and a server of the pages."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from arc_common import ArcSettings, ContextEngine, Document, Message, TokenBudget, ToolCall
from arc_common.server import Role, Token, create_app
from tests.support.context_windows import MARKUP, SCRIPTS

REVIEWER = Token("reviewer-of-the-shop", "shop", None, Role.REVIEWER, "lee")
SETTINGS = ArcSettings(
    rag={"ingestion": {"enabled": True}},
    memory={"enabled": True, "require_review": True},
    context={"store_receipts": "all"},
    budget={"context_window": 2_048},
    summary={"trigger_message_count": 6, "recent_message_count": 2},
    archive={"url": "memory://inspected"},
)
_ENDS = '</textarea></title></details>" autofocus onfocus=alert(1) x=" \u202eright to left\u202c'
THREAT = f"{SCRIPTS} {'long' * 60} {MARKUP} {_ENDS}"
TOOLS = [{"type": "function", "function": {"name": "track", "parameters": {"type": "object", "properties": {}}}}]


def fill(engine: ContextEngine) -> None:
    """Store a session with tools, branches, pins, memories and requests, some other sessions, and a review queue."""
    session = engine.session("order-7", caller_id="shop", user_id="ann")
    for number in range(7):
        said = f"My order HN-{number:03} has {number + 2} chairs, and they must not come before {number + 1} March."
        session.context(said, system_prompt="You are the shop's support. Be kind.", tools=TOOLS)
        session.save_turn(said, f"I noted order HN-{number:03} for {number + 1} March.")
    session.append(
        [
            Message("user", "Where is HN-003?", id="asked"),
            Message("assistant", None, (ToolCall("track", {"order": "HN-003"}, "c1"),)),
            Message("tool", '{"where": "on its way"}', tool_call_id="c1", name="track"),
        ]
    )
    session.summarize()
    session.compact()
    session.context(system_prompt="You are the shop's support. Be kind.", tools=TOOLS)
    session.append(Message("assistant", "It is on its way."))
    session.pin("Never call before nine.")
    session.fork(name="idea")
    memories = engine.memories(caller_id="shop", user_id="ann")
    memories.add("Ann prefers oak.", type="preference", importance=0.8, tags=("wood",))
    memories.add("Ann lives in 12 Elm Street.")
    memories.add("Ann lives in 14 Ash Street now, no longer in Elm Street.")
    memories.add("Ann wants the invoice by post.", status="PENDING")
    engine.session("order-8", caller_id="shop", user_id="bo").save_turn("Hello.", "Hello, Bo.")
    others = engine.memories(caller_id="shop", user_id="bo")
    others.add("Bo prefers oak.", type="preference", importance=0.8)
    others.add("Bo lives in 12 Elm Street.")
    others.add("Bo wants the invoice by post.", status="PENDING")
    engine.documents_of("shop").add(Document("Oiled oak wants new oil once a year.", id="care", source="handbook"))
    session.context("How do I care for oak?", budget=TokenBudget(context_window=4_096))
    korean = engine.session("주문-12", caller_id="shop", user_id="민지")
    korean.save_turn("배송 전에 전화는 안 돼요, 야간 근무라 낮에는 자요.", "알겠습니다. 문자로 연락드리겠습니다.")
    threats = engine.session("<script>alert(1)</script>", caller_id="shop", user_id="<b>eve</b>")
    threats.context(THREAT, system_prompt=THREAT)
    threats.save_turn(THREAT, THREAT)
    threats.pin(THREAT)
    engine.memories(caller_id="shop", user_id="<b>eve</b>").add(THREAT[:4_000])
    queue = engine.ingestion_of("shop")
    for number in range(4):
        queue.capture(
            f"May I return order {number}?", f"Yes, within {number + 10} days.", run_id=f"r{number}", channel="web"
        )
    queue.capture(THREAT, THREAT, run_id="threat", channel="<i>web</i>", user_id="<b>eve</b>", session_id="<script>")
    engine.session("order-1", caller_id="shop", user_id="ann").save_turn("Is there oak?", "There is.")
    engine.flush()
    engine.session("order-1", caller_id="shop", user_id="ann").archive()


@contextmanager
def serving(engine: ContextEngine, *tokens: Token) -> Iterator[str]:
    """Serve the engine's pages and yield the address; without tokens, everyone on this machine has access."""
    app = create_app(engine, tokens, anonymous=not tokens)
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", lifespan="off"))
    listening = server.config.bind_socket()
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/inspector"
    finally:
        server.should_exit = True
        thread.join()
