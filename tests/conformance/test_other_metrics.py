"""Equality with Evret's ERR and RBP, gdeval's ERR and ir_measures' Judged on random runs."""

import importlib
import random
import shutil
import sys
import types
from pathlib import Path

import ir_measures
import pytest

from tests.trec import measured

EVRET = Path(sys.prefix) / "oracles" / "evret-0.0.3" / "evret"
CUTOFFS = (1, 3, 5, 10, 20, 100, 1000)
GDEVAL_MAX_GRADE = 4  # gdeval's scale is fixed


def make_case(seed):
    """Qrels and a run of 80 topics, {topic: {document: number}}, graded, without ties."""
    rng = random.Random(seed)
    qrels, run = {}, {}
    for i in range(80):
        pool = [f"d{j}" for j in range(200)]
        judged = rng.sample(pool, rng.choice([1, 3, 20, 120]))
        retrieved = rng.sample(pool, rng.choice([1, 2, 7, 30, 150]))
        grades = rng.choice([(0, 1), (0, 0, 1, 2, 3, 4), (-1, 0, 0, 1, 2), (0, 0, 0, 0, 1), (4,)])
        qrels[str(i)] = {document: rng.choice(grades) for document in judged}
        run[str(i)] = {d: float(len(retrieved) - rank) for rank, d in enumerate(retrieved)}
    return qrels, run


CASES = [make_case(seed) for seed in range(4)]


def ours(case, names):
    qrels, run = case
    return measured(qrels, run, names)[0]


@pytest.fixture
def evret(monkeypatch):
    """Import one of Evret's metric modules without what the top package wants."""
    if not EVRET.is_dir():
        pytest.skip("Evret 0.0.3 is not installed beside the tests")
    for name in [name for name in sys.modules if name.split(".")[0] == "evret"]:
        monkeypatch.delitem(sys.modules, name)
    package = types.ModuleType("evret")
    package.__path__ = [str(EVRET)]
    monkeypatch.setitem(sys.modules, "evret", package)
    yield lambda module: importlib.import_module(f"evret.metrics.{module}")
    for name in [name for name in sys.modules if name.split(".")[0] == "evret"]:
        del sys.modules[name]


def without_negatives(grades):
    """Evret's RBP subtracts negative grades; ours count as 0."""
    return {document: max(grade, 0) for document, grade in grades.items()}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("max_grade", [1, 2, 4, 5])
def test_err_equals_evret(evret, case, max_grade):
    names = {f"err(max_grade={max_grade})@{k}" if max_grade > 1 else f"err@{k}": k for k in CUTOFFS}
    values = ours(case, names)
    qrels, run = case
    for name, k in names.items():
        oracle = evret("err").ERR(k, max_grade=max_grade)
        for topic, value in values[name].items():
            expected = oracle.score_query(list(run[topic]), qrels[topic])
            assert value == pytest.approx(expected, abs=1e-10), (name, topic)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("p", [0.1, 0.5, 0.8, 0.95, 0.999])
def test_rbp_and_its_residual_equal_evret(evret, case, p):
    brackets = "" if p == 0.8 else f"(p={p})"
    values = ours(case, [f"{m}{brackets}@{k}" for m in ("rbp", "rbp_residual") for k in CUTOFFS])
    qrels, run = case
    for k in CUTOFFS:
        oracle = evret("rbp").RBP(k, p=p)
        for topic, value in values[f"rbp{brackets}@{k}"].items():
            expected = oracle.score_query(list(run[topic]), without_negatives(qrels[topic]))
            assert value == pytest.approx(expected, abs=1e-12), (k, topic)
            residual = values[f"rbp_residual{brackets}@{k}"][topic]
            assert residual == pytest.approx(oracle.compute_residual(len(run[topic])), abs=1e-12)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("k", [None, 1, 5, 20, 1000])
def test_judged_equals_ir_measures(case, k):
    measure = ir_measures.Judged if k is None else ir_measures.Judged @ k
    theirs = ir_measures.iter_calc([measure], *case)
    name = "judged" if k is None else f"judged@{k}"
    values = ours(case, [name])[name]
    expected = {metric.query_id: metric.value for metric in theirs}
    assert values == pytest.approx(expected, abs=1e-9)


@pytest.mark.skipif(
    shutil.which("perl") is None,
    reason="not run: no perl, which gdeval is in (apt-get install perl)",
)
@pytest.mark.parametrize("k", [5, 20])
def test_err_equals_gdeval_to_its_five_decimals(k):
    case = CASES[0]
    name = f"err(max_grade={GDEVAL_MAX_GRADE})@{k}"
    values = ours(case, [name])[name]
    theirs = list(ir_measures.gdeval.iter_calc([ir_measures.ERR @ k], *case))
    assert len(theirs) == len(values)
    for metric in theirs:
        assert values[metric.query_id] == pytest.approx(metric.value, abs=1e-5), metric.query_id
