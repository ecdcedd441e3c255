from __future__ import annotations

import json
import random
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from judged.values import CascadeUsage, StageUsage
from judged.values.calibrators import ErrorGuarantee, ItemShares
from judged_server.statistics.calibration import cascade as server

DATA = Path(__file__).parents[4] / "benchmarks" / "equivalence" / "data"
DRAWS = 200


class Items:
    """Items of some queries: a score, the length of the text, whether there is a verdict."""

    def __init__(self, queries: list[str], scores: list[float], lengths: list[int]) -> None:
        self.queries = queries
        self.scores = np.array(scores)
        self.lengths = np.array(lengths, np.float64)
        self.flags = np.where(np.isnan(self.scores), server.MISSING, server.PLAIN)
        self.buckets = np.array([crc32(query.encode()) % server.BUCKETS for query in queries])

    @classmethod
    def load(cls, name: str) -> Items:
        """Read answers; the score is how many of the expected words the answer has."""
        queries, scores, lengths = [], [], []
        for line in (DATA / f"{name}.jsonl").read_text().splitlines():
            fields = json.loads(line)
            expected = set(fields["expected_text"].lower().split())
            said = set(fields["retrieved_text"].lower().split())
            queries.append(fields["query"])
            scores.append(len(expected & said) / max(len(expected), 1))
            lengths.append(len(fields["retrieved_text"]))
        return cls(queries, scores, lengths)

    def only(self, queries: set[str]) -> Items:
        kept = [place for place, query in enumerate(self.queries) if query in queries]
        return Items(
            [self.queries[place] for place in kept],
            self.scores[kept].tolist(),
            self.lengths[kept].astype(int).tolist(),
        )

    def guarantee(self) -> ErrorGuarantee:
        clusters = np.unique(self.queries, return_inverse=True)[1]
        data = server.describe(clusters, self.scores, self.flags, self.lengths)
        kept = [ItemShares(each.name, each.edges, each.shares, each.variances) for each in data]
        n = len(self.queries) // 2
        return ErrorGuarantee(0.1, 0.95, n, 0, len(set(self.queries)) // 2, n, "", kept, 9)

    def usage(self, guarantee: ErrorGuarantee) -> CascadeUsage:
        columns = (self.buckets, self.scores, self.flags, self.lengths)
        counts = server.count_items(guarantee.data, *columns)  # the same fields
        return CascadeUsage([StageUsage("exact")], 0.0, guarantee, counts.tolist())


def shift_of(labelled: Items, judged: Items):
    found = judged.usage(labelled.guarantee()).shift
    assert found is not None
    return found


@pytest.mark.parametrize("name", ["evouna_nq", "evouna_tq", "nq301_human"])
@pytest.mark.parametrize("share", [0.5, 0.8])
def test_data_like_the_labels_are_called_unlike_in_at_most_a_twentieth(name: str, share: float):
    """Halves of the same data, cut between queries, as far as a half has queries enough."""
    whole = Items.load(name)
    queries = sorted(set(whole.queries))
    alarms = 0
    for seed in range(DRAWS // 4 if name.startswith("evouna") else DRAWS):
        random.Random(seed).shuffle(queries)
        cut = int(len(queries) * share)
        found = shift_of(whole.only(set(queries[:cut])), whole.only(set(queries[cut:])))
        alarms += bool(found.unlike)
    assert alarms <= 0.05 * DRAWS / (4 if name.startswith("evouna") else 1)


def test_missing_verdicts_alone_are_a_shift():
    labelled = Items.load("evouna_nq")
    judged = Items.load("evouna_nq")
    judged.scores[::4] = np.nan
    judged.flags[::4] = server.MISSING
    assert shift_of(labelled, judged).unlike == ("flags",)


@pytest.mark.parametrize("texts", [1.5, 0.5])
def test_longer_or_shorter_texts_alone_are_a_shift(texts: float):
    labelled = Items.load("evouna_nq")
    judged = Items.load("evouna_nq")
    judged.lengths *= texts
    assert shift_of(labelled, judged).unlike == ("length",)


def test_messages_add_up_however_the_items_of_a_query_are_scattered():
    labelled = Items.load("evouna_nq")
    guarantee = labelled.guarantee()
    whole = labelled.usage(guarantee)
    first = sorted(set(labelled.queries))[::2]
    parts = [
        labelled.only(set(first)).usage(guarantee),
        labelled.only(set(labelled.queries) - set(first)).usage(guarantee),
    ]
    assert list((parts[0] + parts[1]).counts) == list(whole.counts)
