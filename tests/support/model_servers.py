"""A local provider of language models whose requests from real client packages a test can read."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

CACHED, INPUT = 1_500, 2_000
"""The input and output tokens that each answer reports."""


@dataclass(frozen=True, slots=True)
class ModelServer:
    """Answers each request with the next of `answers` (a text, or a tool's name and arguments), then with "Fine."."""

    url: str
    answers: list[str | tuple[str, dict[str, Any]]] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)


@contextmanager
def model_server() -> Iterator[ModelServer]:
    """Start a server with Anthropic's and OpenAI's APIs, streaming included."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            place = len(served.bodies)
            served.bodies.append(body)
            said = served.answers[place] if place < len(served.answers) else "Fine."
            answer = next(make for path, make in _ANSWERS.items() if self.path.endswith(path))
            sent = answer(said, place, stream=bool(body.get("stream")))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream" if body.get("stream") else "application/json")
            self.send_header("content-length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served = ModelServer(f"http://127.0.0.1:{server.server_port}")
    thread = Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _events(*events: Mapping[str, Any]) -> bytes:
    return "".join(f"event: {event.get('type', 'x')}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


def _anthropic(said: Any, place: int, *, stream: bool) -> bytes:
    block: dict[str, Any] = {"type": "text", "text": said}
    if not isinstance(said, str):
        block = {"type": "tool_use", "id": f"toolu_{place}", "name": said[0], "input": said[1]}
    usage = {
        "input_tokens": INPUT - CACHED,
        "cache_read_input_tokens": CACHED,
        "cache_creation_input_tokens": 0,
        "output_tokens": 3,
    }
    whole = {
        "id": f"msg_{place}",
        "type": "message",
        "role": "assistant",
        "model": "claude-test",
        "content": [block],
        "stop_reason": "end_turn" if isinstance(said, str) else "tool_use",
        "stop_sequence": None,
        "usage": usage,
    }
    if not stream:
        return json.dumps(whole).encode()
    return _events(
        {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": said}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    )


def _chat_completion(said: Any, place: int, *, stream: bool) -> bytes:
    usage = {
        "prompt_tokens": INPUT,
        "completion_tokens": 3,
        "total_tokens": INPUT + 3,
        "prompt_tokens_details": {"cached_tokens": CACHED},
    }
    head = {"id": f"chatcmpl-{place}", "created": 0, "model": "gpt-test"}
    message = {"role": "assistant", "content": said}
    if not stream:
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return json.dumps({**head, "object": "chat.completion", "choices": [choice], "usage": usage}).encode()
    chunk = {**head, "object": "chat.completion.chunk"}
    choice = {"index": 0, "delta": message, "finish_reason": "stop"}
    return _events({**chunk, "choices": [choice]}, {**chunk, "choices": [], "usage": usage}) + b"data: [DONE]\n\n"


def _response(said: Any, place: int, *, stream: bool) -> bytes:
    text = {"type": "output_text", "text": said, "annotations": []}
    output = {"type": "message", "id": f"msg_{place}", "status": "completed", "role": "assistant", "content": [text]}
    usage = {
        "input_tokens": INPUT,
        "output_tokens": 3,
        "total_tokens": INPUT + 3,
        "input_tokens_details": {"cached_tokens": CACHED},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    whole = {
        "id": f"resp_{place}",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "model": "gpt-test",
        "output": [output],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage,
    }
    if not stream:
        return json.dumps(whole).encode()
    place_of = {"item_id": output["id"], "output_index": 0, "content_index": 0, "sequence_number": 1}
    return _events(
        {"type": "response.output_text.delta", "delta": said, "logprobs": [], **place_of},
        {"type": "response.completed", "response": whole, "sequence_number": 2},
    )


_ANSWERS = {"/messages": _anthropic, "/chat/completions": _chat_completion, "/responses": _response}
