"""`arc serve` and `arc mcp` in a separate process, over a real port or pipe."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from arc_common import ContextEngine
from tests.support.benchmarks import benchmark
from tests.support.databases import sqlite_url
from tests.support.demo_runs import here
from tests.support.forks import arc_server
from tests.support.servers import ARC

ROOT = Path(__file__).parents[2]
SECRET = "a-token-of-the-shop"


def test_serve_takes_its_tokens_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file's token is required to write, and a message written through the server is durable."""
    url = sqlite_url(tmp_path)
    (tmp_path / "tokens.json").write_text(json.dumps([{"token": SECRET, "caller": "shop", "role": "writer"}]))
    monkeypatch.setenv("ARC_SERVER__TOKENS_FILE", "tokens.json")
    with arc_server(tmp_path, "serve", "--url", url) as address:
        assert httpx.get(f"{address}/readyz").json() == {"status": "ok"}
        assert httpx.get(f"{address}/api/sessions").status_code == 401
        body = {"messages": [{"role": "user", "content": "Hello"}]}
        headers = {"Authorization": f"Bearer {SECRET}"}
        assert httpx.post(f"{address}/api/sessions/s/messages", json=body, headers=headers).status_code == 201
    with ContextEngine.open(url) as engine:
        assert [one.text for one in engine.session("s", caller_id="shop").messages()] == ["Hello"]


@pytest.mark.parametrize(
    ("words", "secret", "said"),
    [
        (("serve",), None, "no token is configured"),
        (("serve", "--anonymous", "--host", "192.0.2.1"), None, "--host: got '192.0.2.1' with --anonymous"),
        (("serve", "--tokens", "missing.json"), None, "missing.json"),
        (("mcp",), None, "no token is configured"),
        (("mcp", "--port", "0", "--anonymous", "--host", "192.0.2.1"), None, "--host: got '192.0.2.1' with"),
        (("mcp", "--port", "0", "--anonymous", "--user", "ann"), None, "--user: not allowed with --port"),
        (("mcp", "--tokens", "tokens.json"), None, "ARC_SERVER__MCP_TOKEN"),
        (("mcp", "--tokens", "tokens.json"), "of-nobody-at-all", "a valid bearer token is required"),
        (("mcp", "--tokens", "tokens.json", "--user", "ben"), SECRET, "the token is for another user"),
        (("mcp", "--tokens", "tokens.json", "--anonymous"), None, "tokens are configured"),
    ],
)
def test_it_refuses_to_serve_without_tokens(
    tmp_path: Path, words: tuple[str, ...], secret: str | None, said: str
) -> None:
    """Only `--anonymous` on this machine works without a token; errors leave standard output empty."""
    (tmp_path / "tokens.json").write_text(json.dumps([{"token": SECRET, "caller": "shop", "user": "ann"}]))
    command, *options = words
    named = {"ARC_SERVER__MCP_TOKEN": secret} if secret else {}
    ran = here(tmp_path, *options, "--url", sqlite_url(tmp_path), command=command, **named)
    assert (ran.code, ran.out) == (1, "")
    assert said in ran.err
    assert SECRET not in ran.err


async def uses(client: Client, **whose: str) -> list[str]:
    """Save a memory, find it, and return the names of the server's tools."""
    tools = [one.name for one in (await client.list_tools()).tools]
    saved: Any = await client.call_tool("save_memory", {"content": "Ann likes tea.", **whose})
    assert not saved.is_error, saved
    found: Any = await client.call_tool("search_memory", {"query": "tea", **whose})
    assert [one["id"] for one in found.structured_content["memories"]] == [saved.structured_content["id"]]
    return tools


async def test_a_client_starts_the_mcp_server_and_calls_its_tools(tmp_path: Path) -> None:
    """The SDK's client starts it over standard input and output with `server.mcp_token`; its memory is durable."""
    url = sqlite_url(tmp_path)
    (tmp_path / "tokens.json").write_text(json.dumps([{"token": SECRET, "caller": "shop", "role": "writer"}]))
    words = [*ARC[1:], "mcp", "--url", url, "--tokens", "tokens.json", "--user", "ann"]
    server = StdioServerParameters(command=ARC[0], args=words, env={"ARC_SERVER__MCP_TOKEN": SECRET}, cwd=tmp_path)
    async with Client(server) as client:
        assert len(await uses(client)) == 5
    with ContextEngine.open(url) as engine:
        (memory,) = engine.memories(caller_id="shop", user_id="ann").list()
        assert memory.text == "Ann likes tea."


async def test_the_mcp_server_over_http(tmp_path: Path) -> None:
    """A request without a token is rejected, and a client with one can use the tools."""
    (tmp_path / "tokens.json").write_text(json.dumps([{"token": SECRET, "caller": "shop", "role": "writer"}]))
    with arc_server(tmp_path, "mcp", "--url", sqlite_url(tmp_path), "--tokens", "tokens.json") as address:
        async with httpx2.AsyncClient() as http:
            assert (await http.post(f"{address}/mcp", json={})).status_code == 401
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {SECRET}"}) as http,
            Client(streamable_http_client(f"{address}/mcp", http_client=http)) as client,
        ):
            assert len(await uses(client, user_id="ann")) == 5


@pytest.fixture(scope="module")
def comparing() -> ModuleType:
    return benchmark("server_latency")


def test_reads_take_little_longer_than_a_bare_route(comparing: ModuleType, tmp_path: Path) -> None:
    """With fifty clients there are no errors, and arc's 99th percentile is at most three times a bare route's."""
    taken = comparing.run(f"sqlite:///{tmp_path / 'arc.db'}", clients=50, seconds=60, most=20)
    assert taken.errors == 0
    assert sum(map(len, taken.seconds.values())) == 50 * 20
    assert taken.percentile("arc", 0.99) <= 3 * taken.percentile("bare", 0.99)
