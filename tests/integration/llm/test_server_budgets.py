"""Budgets that the server itself has: of a request, and of a day that outlives it."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from judged import Client, Judge, QueryGroup
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub

from tests.fakes.providers.scripted_provider import ScriptedProvider
from tests.integration.llm.budgeted_server import answers, budgeted_server, reasons, say, work

script = say


def details(failure: grpc.RpcError) -> dict[str, Any]:
    trailers: dict[str, Any] = dict(failure.trailing_metadata() or ())
    status = status_pb2.Status.FromString(trailers["grpc-status-details-bin"])
    found = {}
    for packed in status.details:
        message = getattr(error_details_pb2, packed.type_url.rpartition(".")[2])()
        assert packed.Unpack(message)
        found[type(message).__name__] = message
    return found


class TestServersBudgets:
    def test_a_request_may_cost_no_more(self, provider: ScriptedProvider, tmp_path: Path):
        with (
            budgeted_server(provider, tmp_path, "[budget]\nper_request = 0.005") as ready,
            grpc.insecure_channel(ready.address) as channel,
        ):
            stub = JudgeServiceStub(channel)
            reply = stub.BatchJudge(work("request", 40), timeout=60)
            assert reasons(reply) == {"BUDGET"}
            assert 0 < reply.usage.cost <= 0.005
            assert "what one request may cost" in reply.verdicts.errors[0].message
            assert not stub.BatchJudge(work("next", 2), timeout=60).verdicts.errors

    def test_a_day_outlives_the_server_and_is_shared(
        self, provider: ScriptedProvider, tmp_path: Path
    ):
        file = tmp_path / "spending.sqlite"
        budget = f'[budget]\nper_day = 0.03\nfile = "{file}"'
        costs: list[float] = []
        with (
            budgeted_server(provider, tmp_path / "a", budget) as first,
            budgeted_server(provider, tmp_path / "b", budget) as second,
        ):
            for ready in (first, second):
                with grpc.insecure_channel(ready.address) as channel:
                    stub = JudgeServiceStub(channel)
                    reply = stub.BatchJudge(work(f"day {len(costs)}", 12), timeout=60)
                    costs.append(reply.usage.cost)
        assert min(costs) > 0
        with (
            budgeted_server(provider, tmp_path / "a", budget) as again,
            grpc.insecure_channel(again.address) as channel,
        ):
            stub = JudgeServiceStub(channel)
            reply = stub.BatchJudge(work("day 3", 60), timeout=60)
            costs.append(reply.usage.cost)
            assert reasons(reply) == {"BUDGET"}
            said = reply.verdicts.errors[0].message
            assert "what this server may spend a day" in said
            assert said.count("EUR") == 1, "what is left would tell what others ask"
            before = provider.requests
            with pytest.raises(grpc.RpcError) as caught:
                stub.BatchJudge(work("day 4", 5), timeout=60)
            with pytest.raises(grpc.RpcError) as scoring:
                list(stub.ScoreAnswers(answers("day 5", 2, "answer_match"), timeout=60))
            assert provider.requests == before
        for failure in (caught.value, scoring.value):
            assert failure.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            found = details(failure)
            assert set(found) == {"ErrorInfo", "QuotaFailure"}
            assert found["ErrorInfo"].reason == "BUDGET_EXHAUSTED"
            assert found["ErrorInfo"].metadata["budget"] == "per_day"
        with sqlite3.connect(file) as db:
            ((currency, nano),) = db.execute("SELECT currency, nano FROM settled").fetchall()
        assert currency == "EUR"
        assert nano == pytest.approx(1e9 * sum(costs))
        assert nano <= 3e7

    def test_what_was_cut_off_counts_in_full(self, provider: ScriptedProvider, tmp_path: Path):
        file = tmp_path / "spending.sqlite"
        with (
            budgeted_server(provider, tmp_path, f'[budget]\nper_day = 1\nfile = "{file}"') as ready,
            Client(ready.address) as client,
        ):
            group = QueryGroup("q", ["e"], ["slow"])
            found = client.judge([group], Judge("llm"), timeout=4)
            assert found.errors[0].reason == "TIMEOUT"
        with sqlite3.connect(file) as db:
            ((nano,),) = db.execute("SELECT nano FROM settled").fetchall()
        assert nano > 256 * 2000  # the whole of max_tokens, and the input
