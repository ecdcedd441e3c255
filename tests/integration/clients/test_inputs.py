"""What people hand in as they have it: ids that are numbers, results that can be read once only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from judged import Client, QueryGroup, TrecRankings
from judged.evaluation import Dataset, EvaluationResult, Evaluator, Query, Retrieved

TWO = Dataset([Query("q1", "x", relevant_document_ids=["3"]), Query(2, "y", ["text of 4"])])


class Shelf:
    def __init__(self, kind: type, once: bool) -> None:
        self.kind = kind
        self.once = once

    def retrieve(self, query: str, k: int) -> Iterator[Retrieved] | list[Retrieved]:
        found = (Retrieved(self.kind(n), None, f"text of {n}") for n in (4, 3, 5)[:k])
        return found if self.once else list(found)


@pytest.mark.parametrize("kind", [str, int, np.int64])
@pytest.mark.parametrize("once", [False, True])
def test_a_retriever_is_measured_alike_whatever_its_ids_and_lists_are(client: Client, kind, once):
    found = Evaluator(client).evaluate(Shelf(kind, once), TWO, ["mrr"], "exact", 3)
    assert found.table["mrr"].mean == 0.75  # at rank 2 by id, at rank 1 by its text
    assert found.table.counts.retrieved == 6


def test_a_run_of_numbers_is_measured_as_one_of_texts(client: Client):
    qrels: Any = {"1": {"3": 1}, 2: {4: 1}}
    run: Any = {1: np.array([5, 3]), np.int64(2): (n for n in (4, 5))}
    table = client.compute_metrics(["mrr"], TrecRankings(qrels, run))
    assert table["mrr"].mean == 0.75


def test_groups_may_come_from_a_generator_and_bring_generators(client: Client):
    def groups() -> Iterator[QueryGroup]:
        for n in (1, 2):
            texts = (f"text of {m}" for m in (n, 3))
            yield QueryGroup("q", map(str, ["text of 1"]), texts, n, iter([n, 3]))

    assert client.judge(groups(), "exact").relevant == [True, False, False, False]
    for evaluate in (client.evaluate, Evaluator(client).evaluate_groups):
        found = evaluate(groups(), (name for name in ["mrr", "recall@1"]), "exact")
        assert [metric.mean for metric in found.table.metrics] == [0.5, 0.5]


def test_k_holds_and_a_failure_is_that_of_its_query(client: Client):
    def rank(query: str, k: int) -> list[Retrieved]:
        if query == "y":
            raise OSError("no shelf")
        return [Retrieved(n) for n in (9, 8, 7, 6, 3)]

    def evaluate(k: int) -> EvaluationResult:
        return Evaluator(client).evaluate(rank, TWO, ["mrr", "recall@5"], "exact", k)

    assert evaluate(5).table["mrr"].mean == 0.2
    found = evaluate(3)
    assert [metric.mean for metric in found.table.metrics] == [0, 0]
    assert found.table.counts.queries == 1
    assert found.failures == {"2": "OSError: no shelf"}
    assert len(found.warnings) == 4  # one says that no retrieved id is expected
