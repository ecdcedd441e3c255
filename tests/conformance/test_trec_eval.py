"""Equality with trec_eval (pytrec-eval-terrier, ir_measures) to 1e-9 on random runs."""

import random
from dataclasses import dataclass

import numpy as np
import pytest
import pytrec_eval
from judged.values.choices import NoGold, Unjudged
from judged_server.metrics.compute import SettledOptions, compute_gains
from judged_server.metrics.measures import parse_metrics

from tests.trec import measured

CUTOFFS = (1, 3, 5, 10, 20, 100, 1000)
AT_K = {
    "precision": "P",
    "recall": "recall",
    "hit_rate": "success",
    "ap": "map_cut",
    "ndcg": "ndcg_cut",
}
WHOLE = {
    "precision": "set_P",
    "recall": "set_recall",
    "f1": "set_F",
    "mrr": "recip_rank",
    "ap": "map",
    "ndcg": "ndcg",
    "r_precision": "Rprec",
    "bpref": "bpref",
    "infap": "infAP",
}
THEIRS = {f"{ours}@{k}": f"{theirs}_{k}" for ours, theirs in AT_K.items() for k in CUTOFFS} | WHOLE
REQUESTED = {f"{theirs}.{','.join(map(str, CUTOFFS))}" for theirs in AT_K.values()} | set(
    WHOLE.values()
)

ALPHABET = "abzAZ09-_.é漢\uff5e\U0001f600"


@dataclass(frozen=True)
class Case:
    """Qrels and a run, as {topic: {document: number}}."""

    qrels: dict[str, dict[str, int]]
    run: dict[str, dict[str, float]]


def make_case(seed: int) -> Case:
    """80 topics with ties, float32 ties, graded and negative grades, topics that do not meet."""
    rng = random.Random(seed)
    qrels: dict[str, dict[str, int]] = {}
    run: dict[str, dict[str, float]] = {}
    for i in range(80):
        topic = f"t{i}{rng.choice(ALPHABET)}"
        pool = list({"".join(rng.choices(ALPHABET, k=rng.randint(1, 5))) for _ in range(300)})
        retrieved = rng.sample(pool, rng.choice([1, 2, 7, 30, 150]))
        judged = rng.sample(pool, rng.choice([1, 3, 20, 120]))
        grades = rng.choice([(0, 1), (-1, 0, 0, 1, 2, 3), (-1, 0), (3,)])
        scorer = rng.choice(
            [
                lambda: rng.gauss(0, 10),
                lambda: float(rng.randrange(3)),
                lambda: 1.0 + rng.randrange(5) * 1e-9,  # equal as float32, not as double
                lambda: rng.choice([0.0, -0.0, 1e-46, -1e-46, 1e30, -1e30]),
            ]
        )
        if rng.random() < 0.9:
            qrels[topic] = {document: rng.choice(grades) for document in judged}
            if max(qrels[topic].values()) < 0:
                # The oracle overruns its memory when every judgement of a topic is negative.
                qrels[topic][judged[0]] = 0
        if rng.random() < 0.9:
            run[topic] = {document: scorer() for document in retrieved}
    return Case(qrels, run)


CASES = [make_case(seed) for seed in range(6)]


def ours(case: Case, names, **options):
    return measured(case.qrels, case.run, names, **options)


@pytest.mark.parametrize("case", CASES)
def test_every_value_of_every_topic_equals_trec_eval(case):
    values, table = ours(case, THEIRS)
    oracle = pytrec_eval.RelevanceEvaluator(case.qrels, REQUESTED).evaluate(case.run)
    for name, theirs in THEIRS.items():
        assert values[name].keys() == oracle.keys()
        for topic, value in values[name].items():
            assert value == pytest.approx(oracle[topic][theirs], abs=1e-9), (name, topic)
    assert table.counts.evaluated == len(oracle)
    assert table.counts.skipped_missing == len(case.qrels.keys() - case.run.keys())
    assert table.counts.skipped_unjudged == len(case.run.keys() - case.qrels.keys())


@pytest.mark.parametrize("level", [1, 2, 3, 4])
@pytest.mark.parametrize("case", CASES)
def test_a_relevance_level_is_that_of_trec_eval(case, level):
    values, _ = ours(case, THEIRS, relevance_level=level)
    evaluator = pytrec_eval.RelevanceEvaluator(case.qrels, REQUESTED, relevance_level=level)
    oracle = evaluator.evaluate(case.run)
    for name, theirs in THEIRS.items():
        assert values[name].keys() == oracle.keys()
        for topic, value in values[name].items():
            assert value == pytest.approx(oracle[topic][theirs], abs=1e-9), (name, topic)


@pytest.mark.parametrize("most", [1, 5, 10_000])
@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("case", CASES[:3])
def test_only_the_best_documents_count_as_if_the_run_were_cut(case, level, most):
    cut = {}
    for topic, docs in case.run.items():
        key = {document: (np.float32(score), document.encode()) for document, score in docs.items()}
        best = sorted(docs, key=key.__getitem__, reverse=True)[:most]
        cut[topic] = {document: docs[document] for document in best}
    evaluator = pytrec_eval.RelevanceEvaluator(case.qrels, REQUESTED, relevance_level=level)
    oracle = evaluator.evaluate(cut)
    values, table = ours(case, THEIRS, relevance_level=level, max_documents=most)
    for name, theirs in THEIRS.items():
        for topic, value in values[name].items():
            assert value == pytest.approx(oracle[topic][theirs], abs=1e-9), (name, topic)
    assert table.counts.retrieved == sum(len(cut[topic]) for topic in oracle)
    at_cutoffs = {f"{name}@{most}": WHOLE[name] for name in ("mrr", "bpref", "infap")}
    values, _ = ours(case, at_cutoffs, relevance_level=level)
    for name, theirs in at_cutoffs.items():
        expected = {topic: of_topic[theirs] for topic, of_topic in oracle.items()}
        assert values[name] == pytest.approx(expected, abs=1e-9), name
    _, as_if_cut = ours(Case(case.qrels, cut), ["judged"], relevance_level=level)
    assert table.counts.unjudged == as_if_cut.counts.unjudged


@pytest.mark.parametrize("case", CASES[:2])
def test_condensed_rankings_are_those_of_judged_documents_only(case):
    options = {"judged_docs_only_flag": True}  # -J
    oracle = pytrec_eval.RelevanceEvaluator(case.qrels, REQUESTED, **options).evaluate(case.run)
    values, _ = ours(case, THEIRS, unjudged=Unjudged.CONDENSED)
    for name, theirs in THEIRS.items():
        expected = {topic: of_topic[theirs] for topic, of_topic in oracle.items()}
        assert values[name] == pytest.approx(expected, abs=1e-9), name


@pytest.mark.parametrize("case", CASES[:2])
def test_complete_counts_missing_topics_as_zero(case):
    values, table = ours(case, THEIRS, complete=True)
    oracle = pytrec_eval.RelevanceEvaluator(case.qrels, REQUESTED).evaluate(case.run)
    for column in table.columns:
        total = sum(topic[THEIRS[column.name]] for topic in oracle.values())
        assert column.mean == pytest.approx(total / len(case.qrels), abs=1e-9)
        assert column.signature.endswith("|source:trec|complete:true|v1")
        missing = case.qrels.keys() - case.run.keys()
        assert {values[column.name][topic] for topic in missing} == {0.0}


def test_exponential_gains_equal_linear_ones_of_the_transformed_grades():
    case = CASES[1]
    transformed = {
        topic: {document: 2 ** max(grade, 0) - 1 for document, grade in docs.items()}
        for topic, docs in case.qrels.items()
    }
    oracle = pytrec_eval.RelevanceEvaluator(transformed, {"ndcg_cut.10"}).evaluate(case.run)
    values, _ = ours(case, ["ndcg(gain=exponential)@10"])
    for topic, value in values["ndcg(gain=exponential)@10"].items():
        assert value == pytest.approx(oracle[topic]["ndcg_cut_10"], abs=1e-9)


def test_gains_by_rank_equal_the_run_they_come_from():
    case = CASES[2]
    names = ["ndcg@10", "ap", "recall@5", "f1@3", "r_precision", "err(max_grade=3)", "rbp@20"]
    values, _ = ours(case, names)
    topics = list(values["ap"])
    gains, relevant = [], []
    for topic in topics:
        qrels, run = case.qrels[topic], case.run[topic]
        keys = {document: (np.float32(score), document.encode()) for document, score in run.items()}
        ordered = sorted(keys, key=keys.__getitem__, reverse=True)
        gains.append([qrels.get(document, 0) for document in ordered])
        relevant.append([grade for grade in qrels.values() if grade > 0])
    options = SettledOptions(no_gold=NoGold.ZERO)
    table = compute_gains(parse_metrics(names), gains, relevant, options)
    for column in table.columns:
        assert column.values.tolist() == list(values[column.name].values())
