from __future__ import annotations

import inspect
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from judged.v1 import error_reason_pb2
from judged_server import errors
from judged_server.api.status import TABLE, fault_code, internal_fault, to_wire
from judged_server.llm.chat import Reason

EXAMPLES: list[errors.JudgedError] = [
    errors.InvalidField("groups[0].query", "too odd"),
    errors.LimitExceeded("groups", "groups", 10, 11),
    errors.MalformedMessage("not a message"),
    errors.Unauthenticated("who is it?"),
    errors.UnknownJudge("nobody", ("exact",)),
    errors.UnknownRubric("taste", ("helpfulness",)),
    errors.ModelNotInstalled("m", "run this"),
    errors.ModelNotConfigured("gpt", "set KEY"),
    errors.BudgetExhausted("per_day", "nothing is left"),
    errors.ModelDamaged("model.onnx", "truncated", "run that"),
    errors.DeadlineExceeded("late"),
    errors.DeadlineTooShort(5.3, 1.0),
    errors.Overloaded("busy", 0.25),
    errors.TenantLimit("tokens_per_second", "too much", 2.5),
    errors.AuthenticationLimit(100, 30.0),
    errors.Draining("bye", 1.5),
    errors.InternalFault("abc"),
]
ABSTRACT = {errors.JudgedError, errors.Retryable}


def unpack(error: errors.JudgedError) -> tuple[status_pb2.Status, dict[str, Any]]:
    """Read our trailers with Google's own messages."""
    raw = dict(to_wire(error).trailers)["grpc-status-details-bin"]
    status = status_pb2.Status.FromString(raw)
    details: dict[str, Any] = {}
    for packed in status.details:
        kind = getattr(error_details_pb2, packed.type_url.rpartition(".")[2])
        message = kind()
        assert packed.Unpack(message)
        details[kind.__name__] = message
    return status, details


def test_every_error_of_the_tree_is_in_the_table():
    classes = {
        c
        for _, c in inspect.getmembers(errors, inspect.isclass)
        if issubclass(c, errors.JudgedError)
    }
    assert classes - ABSTRACT == {type(example) for example in EXAMPLES}
    assert {example.reason for example in EXAMPLES} <= set(TABLE)


def test_every_reason_is_in_the_contract():
    names = {name.removeprefix("ERROR_REASON_") for name in error_reason_pb2.ErrorReason.keys()}  # noqa: SIM118
    assert {example.reason for example in EXAMPLES} | set(Reason) <= names


def test_a_missing_verdict_has_the_code_of_its_reason():
    unknown = {"REFUSED", "UNPARSABLE", "NO_QUORUM", "MARKER_REPEATED"}
    assert {reason for reason in Reason if fault_code(reason) == 2} == unknown
    codes = {
        reason: fault_code(reason) for reason in ("TIMEOUT", "BUDGET", "INTERNAL", "UNSETTLED")
    }
    assert codes == {"TIMEOUT": 4, "BUDGET": 8, "INTERNAL": 13, "UNSETTLED": 2}


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda e: type(e).__name__)
def test_google_reads_our_details(error: errors.JudgedError):
    status, details = unpack(error)
    assert status.code == to_wire(error).code.value[0]
    assert status.message == error.message
    info = details["ErrorInfo"]
    assert (info.domain, info.reason) == ("judged", error.reason)
    assert dict(info.metadata) == error.metadata


def test_what_may_be_retried_says_when():
    wire = to_wire(errors.Overloaded("busy", 0.25))
    assert wire.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert dict(wire.trailers)["grpc-retry-pushback-ms"] == "250"
    _, details = unpack(errors.Overloaded("busy", 0.25))
    assert details["RetryInfo"].retry_delay.ToMilliseconds() == 250


def test_a_want_of_memory_is_no_bug():
    wire = to_wire(internal_fault(MemoryError()))
    assert wire.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "grpc-retry-pushback-ms" in dict(wire.trailers)
    assert to_wire(internal_fault(KeyError())).code is grpc.StatusCode.INTERNAL
