from __future__ import annotations

import inspect

import judged
from judged import AsyncClient, Client

PUBLIC = """
AsyncClient Client Context DeadlineExceeded Embeddings Evaluation FailedPrecondition Flag
GainRanking GainRankings InternalError InvalidArgument Judge JudgeIdentity JudgeInfo JudgedChunk
JudgedError JudgedRanking JudgedRankings Limits Matching MetricCounts MetricInfo MetricOptions
MetricResult MetricTable ModelInfo NoGold NotFound Overloaded ParameterInfo PerQueryValues
PermissionRefused QueryGroup Retryable ServerInfo Source Status TrecRankings Unavailable Verdict
VerdictCounts VerdictError Verdicts
"""


def test_public_names_are_frozen():
    assert sorted(judged.__all__) == sorted(PUBLIC.split())
    assert all(hasattr(judged, name) for name in judged.__all__)


def methods(kind):
    return [
        name for name in vars(kind) if not name.startswith("_") and callable(getattr(kind, name))
    ]


def test_both_clients_have_the_same_methods_in_the_same_order():
    assert methods(Client) == methods(AsyncClient)
    for name in methods(Client):
        ours = inspect.signature(getattr(Client, name)).parameters
        theirs = inspect.signature(getattr(AsyncClient, name)).parameters
        assert list(ours) == list(theirs), name
        assert [p.default for p in ours.values()] == [p.default for p in theirs.values()], name


def test_every_call_of_the_service_has_a_method():
    from judged.v1 import judge_service_pb2

    calls = {m.name for m in judge_service_pb2.DESCRIPTOR.services_by_name["JudgeService"].methods}
    assert calls == {"BatchJudge", "StreamJudge", "Evaluate", "ComputeMetrics", "GetServerInfo"}
    assert {"judge", "judge_stream", "evaluate", "compute_metrics", "server_info"} <= set(
        methods(Client)
    )


def test_importing_the_client_brings_neither_numpy_nor_the_server():
    import subprocess
    import sys

    code = "import sys, judged, judged.evaluation; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert {"numpy", "judged_server", "typer", "rich", "aiohttp"} & set(loaded) == set()
