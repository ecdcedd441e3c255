"""The OpenAPI document against a real server: schemathesis makes requests that fit and that don't.

A request of chance seldom judges anything, so half of those that fit are recipes of docs/http.md
with some of their fields replaced.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, assume, given, seed, settings
from hypothesis import strategies as st
from judged.v1 import judge_service_pb2, statistics_service_pb2
from schemathesis import Case, GenerationMode
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.integration.http.test_http_recipes import RECIPES, address
from tests.integration.http_calls import ask

__all__ = ["address"]  # the fixture: a server with a provider

ROOT = Path(__file__).resolve().parents[3]
DOCUMENT = json.loads((ROOT / "server/judged_server/http_api/openapi.json").read_bytes())
FOUND = schemathesis.openapi.from_dict(DOCUMENT).get_all_operations()
OPERATIONS = {each.ok().label: each.ok() for each in FOUND if isinstance(each, Ok)}
CALLS = sorted(label for label in OPERATIONS if label.startswith("POST"))
DEADLINE = re.compile("[0-9]{1,8}[HMSmun]")
"""What the server takes; the document asks for less, so that callers mean what they say."""
RULES = [positive_data_acceptance]
"""What is not held: the schema can't say all that a call asks for, such as at least one group."""


def few(number: int):
    """Return what lets a test make so many requests, the same each time."""

    def apply(test):
        how = settings(
            max_examples=number,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        return seed(18)(how(test))

    return apply


def message_of(label: str) -> str:
    """Return the name of a call's request."""
    operation = DOCUMENT["paths"][label.removeprefix("POST ")]["post"]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    return str(schema["$ref"]).rpartition("/")[2]


def has_null(body: object) -> bool:
    """Say whether any value of a body is null."""
    if isinstance(body, dict):
        return any(map(has_null, body.values()))
    return body is None or (isinstance(body, list) and any(map(has_null, body)))


def check(address: str, case: Case[Any]) -> int:
    """Make the request, hold its reply against the document, and return the status.

    A deadline that fits is left out: chance decides whether a call makes one of some microseconds.
    """
    if DEADLINE.fullmatch(str(case.headers.get("grpc-timeout", ""))):
        del case.headers["grpc-timeout"]
    reply = case.call(base_url=f"http://{address}", timeout=60)
    case.validate_response(reply, excluded_checks=RULES)
    return reply.status_code


@pytest.mark.parametrize("label", CALLS)
def test_requests_that_fit(address: str, label: str):
    recipe, _ = RECIPES[label.rpartition("/")[2]]
    body: dict[str, object] = json.loads(re.search(r"--json '(.*?)'", recipe, re.DOTALL)[1])
    replaceable = sorted({*DOCUMENT["components"]["schemas"][message_of(label)]["properties"]})

    @few(10)
    @given(
        OPERATIONS[label].as_strategy(generation_mode=GenerationMode.POSITIVE),
        st.none() | st.lists(st.sampled_from(replaceable or [""]), max_size=2),
    )
    def run(case: Case[Any], replaced: list[str] | None):
        if replaced is not None and isinstance(case.body, dict):
            case.body = body | {name: case.body[name] for name in replaced if name in case.body}
        assert check(address, case) in {200, 400, 404}

    run()


@pytest.mark.parametrize("label", [label for label in CALLS if not label.endswith("Info")])
def test_requests_that_do_not_fit(address: str, label: str):
    @few(5)
    @given(OPERATIONS[label].as_strategy(generation_mode=GenerationMode.NEGATIVE))
    def run(case: Case[Any]):
        assume(not has_null(case.body))  # a field left out, by protobuf's mapping: it may fit
        assume(not DEADLINE.fullmatch(str(case.headers.get("grpc-timeout", ""))))
        assert check(address, case) == 400

    run()


def test_the_document_is_served_and_has_every_call(address: str):
    assert ask(address, "/openapi.json", method="GET").json == DOCUMENT
    names = {
        f"/v1/{method.name}"
        for file in (judge_service_pb2, statistics_service_pb2)
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
        if not method.client_streaming
    }
    assert names | {"/healthz", "/readyz"} == set(DOCUMENT["paths"])
