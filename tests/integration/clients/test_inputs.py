"""What people hand in as they have it: ids that are numbers, results that can be read once only."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from judged import Client, QueryGroup
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
    found = Evaluator(client).evaluate(Shelf(kind, once), TWO, ["mrr"], "exact", 3)
    assert found.table["mrr"].mean == 0.75  # at rank 2 by id, at rank 1 by its text
    assert found.table.counts.retrieved == 6


def test_groups_may_come_from_a_generator_and_bring_generators(client: Client):
    def groups() -> Iterator[QueryGroup]:
        for n in (1, 2):
            texts = (f"text of {m}" for m in (n, 3))
            yield QueryGroup("q", map(str, ["text of 1"]), texts, n, iter([n, 3]))

    assert client.judge(groups(), "exact").relevant == [True, False, False, False]
    for evaluate in (client.evaluate, Evaluator(client).evaluate_groups):
        found = evaluate(groups(), (name for name in ["mrr", "recall@1"]), "exact")
        assert [metric.mean for metric in found.table.metrics] == [0.5, 0.5]
