from __future__ import annotations

import judged
from judged import Client

PUBLIC = """
AnswerItem Asking AsyncClient BudgetExhausted CacheMode CalibrateOptions Calibrator Client
ClientUnusable CompareOptions Context DeadlineExceeded DocumentRankings EmbeddedRanking
EmbeddedRankings Embeddings Evaluation FailedPrecondition Flag GainRanking GainRankings
HumanLabels InternalError IntervalMethod IntervalOptions InvalidArgument Judge JudgedError
JudgedRanking JudgedRankings LabelledScores Matching MetricOptions MetricTable NoGold NotFound
Overloaded PairedComparison PanelMember PerQueryValues PermissionDenied QueryGroup RatingLevel
RatingTable RetrievedDocuments Retryable Rubric ScoredAnswers ScoredDocuments Source Span Spans
Status SystemRanking SystemScores TextItem TextMetricTable ThresholdCriterion TrecRankings
Unavailable Unjudged Verdict Verdicts WrongType local
"""


def test_public_names_are_frozen():
    assert sorted(judged.__all__) == sorted(PUBLIC.split())
    assert all(hasattr(judged, name) for name in judged.__all__)


def methods(kind):
    return [
        name for name in vars(kind) if not name.startswith("_") and callable(getattr(kind, name))
    ]


def test_every_call_of_the_service_has_a_method():
    from judged.v1 import judge_service_pb2, statistics_service_pb2

    calls = {
        method.name
        for file in (judge_service_pb2.DESCRIPTOR, statistics_service_pb2.DESCRIPTOR)
        for service in file.services_by_name.values()
        for method in service.methods
    }
    names = {
        "BatchJudge": "judge",
        "StreamJudge": "judge_stream",
        "Evaluate": "evaluate",
        "StreamEvaluate": "evaluate",
        "ComputeMetrics": "compute_metrics",
        "StreamMetrics": "compute_metrics",
        "CompareRuns": "compare_runs",
        "ComputeTextMetrics": "compute_text_metrics",
        "StreamTextMetrics": "compute_text_metrics",
        "MeasureAgreement": "measure_agreement",
        "Calibrate": "calibrate",
        "CalibrateCascade": "calibrate_cascade",
        "RankSystems": "rank_systems",
        "ScoreAnswers": "score_answers",
        "EstimateBatch": "estimate",
        "GetServerInfo": "server_info",
        "GetUsage": "usage",
    }
    assert calls == names.keys()
    assert set(names.values()) <= set(methods(Client))


def test_importing_the_client_brings_neither_numpy_nor_the_server():
    import subprocess
    import sys

    code = "import sys, judged, judged.evaluation; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    absent = {"numpy", "judged_server", "click", "rich", "aiohttp", "pyarrow", "ray"}
    assert absent & set(loaded) == set()


def test_importing_the_package_loads_nothing_else_and_names_load_what_they_need():
    import subprocess
    import sys

    code = """
import sys, judged
print(*(name for name in sys.modules if name.split(".")[0] in {"judged", "grpc", "google"}))
assert set(judged.__all__) <= set(dir(judged))
assert judged.errors.JudgedError is judged.JudgedError
from judged import *
assert Client is judged.Client
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["judged"]
