"""The API follows its description for any request: no server error, no undocumented answer."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.testclient import TestClient

from arc_common import ArcSettings, ContextEngine
from arc_common.server import Role, Token, create_app
from arc_common.server.routes.table import ENDPOINTS

TOKEN = Token("reviewer-of-the-shop", "shop", None, Role.REVIEWER)
MESSAGES = {"messages": [{"role": "user", "content": "0", "id": "0"}]}
HEADERS = {"Authorization": f"Bearer {TOKEN.secret}"}
SETTINGS = ArcSettings(rag={"ingestion": {"enabled": True, "dynamic_enabled": True}}, context={"store_receipts": "all"})


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with (
        ContextEngine.open("sqlite://", settings=SETTINGS) as engine,
        TestClient(create_app(engine, [TOKEN])) as client,
    ):
        client.post("/api/sessions/0/messages", json=MESSAGES, headers=HEADERS).raise_for_status()
        yield client


@pytest.fixture(scope="module")
def operations(client: TestClient) -> dict[str, Any]:
    schema = schemathesis.openapi.from_asgi("/openapi.json", client.app)
    found = [one.ok() for one in schema.get_all_operations()]
    return {one.definition.raw["operationId"]: one for one in found}


def test_every_route_is_described(client: TestClient) -> None:
    """The description has role, errors, and schemas of input and output."""
    document = client.get("/openapi.json").json()
    described = {
        (method.upper(), path): operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    assert described.keys() == {(one.method, one.path.replace(":path", "")) for one in ENDPOINTS}
    for endpoint in ENDPOINTS:
        operation = described[endpoint.method, endpoint.path.replace(":path", "")]
        answers = operation["responses"]
        assert str(endpoint.status) in answers
        if endpoint.role is not None:
            assert operation["security"] == [{"HTTPBearer": []}]
            assert f"Role: {endpoint.role}." in operation["description"]
            assert {"401", "403", "422", "503"} <= answers.keys()
        assert ("404" in answers) == ("{" in endpoint.path)
        problems = [answer for status, answer in answers.items() if int(status) >= 400]
        assert all(list(answer["content"]) == ["application/problem+json"] for answer in problems)


NAMES = [one.function.__name__ for one in ENDPOINTS]
WITH_INPUT = [one.function.__name__ for one in ENDPOINTS if one.role]
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


@pytest.mark.parametrize("name", NAMES)
def test_random_requests(operations: dict[str, Any], name: str) -> None:
    """Both valid and invalid requests are sent."""
    attack(operations[name], "positive", examples=2)
    if name in WITH_INPUT:
        attack(operations[name], "negative", examples=2)


@pytest.mark.torture
@pytest.mark.parametrize("name", WITH_INPUT)
def test_many_random_requests(operations: dict[str, Any], name: str) -> None:
    attack(operations[name], "positive", examples=300)
    attack(operations[name], "negative", examples=300)


def attack(operation: Any, mode: str, *, examples: int) -> None:
    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(case=operation.as_strategy(generation_mode=schemathesis.GenerationMode(mode)))
    def run(case: Any) -> None:
        case.validate_response(case.call(headers=HEADERS, timeout=60), checks=CHECKS)

    with suppress(Unsatisfiable):  # the operation has no invalid input
        run()


def test_json_that_can_not_be_returned_is_refused(client: TestClient) -> None:
    """Lone surrogates, numbers beyond a float and deep nesting are rejected, and nothing is stored."""
    as_json = {**HEADERS, "Content-Type": "application/json"}
    path = "/api/sessions/s/messages"
    wrong = ('"\\ud800"', "1e999", "NaN", "9" * 5_000, "[" * 100_000 + "]" * 100_000)
    for value in wrong:
        body = f'{{"messages": [{{"role": "user", "content": "a", "metadata": {{"x": {value}}}}}]}}'
        answer = client.post(path, content=body, headers=as_json)
        assert answer.status_code in (400, 422), (value[:20], answer.text[:200])
    assert client.get(path, headers=HEADERS).status_code == 404
    assert client.post(path, content='{"messages": [', headers=as_json).status_code == 422
    assert client.get("/api/sessions/%00/messages", headers=HEADERS).status_code == 422


def test_a_branch_is_a_number_in_ascii_or_a_name(client: TestClient) -> None:
    path = "/api/sessions/s"
    client.post(f"{path}/messages", json={"messages": [{"role": "user", "content": "a"}]}, headers=HEADERS)
    for branch, status in (("0", 200), ("٠", 404), ("9" * 5_000, 422)):
        assert client.get(f"{path}/messages", params={"branch": branch}, headers=HEADERS).status_code == status
    assert client.put(f"{path}/branches/{'9' * 5_000}/current", headers=HEADERS).status_code == 422
