"""What people hand in as they have it: ids that are numbers, results that can be read once only."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from judged import Client, QueryGroup, TrecRankings
from judged.evaluation import Dataset, Evaluator, Query, Retrieved

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
    found = Evaluator(client).evaluate_retriever(Shelf(kind, once), TWO, ["mrr"], 3, "exact")
    assert found.table["mrr"].mean == 0.75  # at rank 2 by id, at rank 1 by its text
    assert found.table.counts.retrieved == 6


def test_a_run_of_numbers_is_measured_as_one_of_texts(client: Client):
    run = {1: np.array([5, 3]), np.int64(2): (n for n in (4, 5))}
    table = client.compute_metrics(["mrr"], TrecRankings({"1": {"3": 1}, 2: {4: 1}}, run))
    assert table["mrr"].mean == 0.75


def test_groups_may_come_from_a_generator_and_bring_generators(client: Client):
    def groups() -> Iterator[QueryGroup]:
        for n in (1, 2):
            texts = (f"text of {m}" for m in (n, 3))
            yield QueryGroup("q", map(str, ["text of 1"]), texts, n, iter([n, 3]))

    assert client.judge(groups(), "exact").relevant == [True, False, False, False]
    for evaluate in (client.evaluate, Evaluator(client).evaluate):
        found = evaluate(groups(), (name for name in ["mrr", "recall@1"]), "exact")
        assert [metric.mean for metric in found.table.metrics] == [0.5, 0.5]
