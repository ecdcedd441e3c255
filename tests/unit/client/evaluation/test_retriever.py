"""Retrievers of all kinds: what is kept of what they find, and what becomes of failures."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest
from judged import InvalidArgument, WrongType
from judged.evaluation import Query, Retrieved
from judged.evaluation.asking import retrieve_all

QUERIES = [Query(f"q{n}", f"text {n}") for n in range(6)]


def rank(query, k):
    return [Retrieved(f"{query}, {n}") for n in range(k)]


class Shelf:
    def retrieve(self, query, k):
        return rank(query, k)


class AsyncShelf:
    async def retrieve(self, query, k):
        await asyncio.sleep(0)
        return rank(query, k)


class Called:
    def __call__(self, query, k):
        return iter(rank(query, k))


async def find_async(query, k):
    await asyncio.sleep(0)
    return rank(query, k)


class Batch:
    def batch_retrieve(self, queries, k):
        return (rank(query, k) for query in queries)


class AsyncBatch:
    async def batch_retrieve(self, queries, k):
        return [rank(query, k) for query in queries]


class ShortBatch:
    def batch_retrieve(self, queries, k):
        return [[]]


KINDS = [Shelf(), AsyncShelf(), Called(), rank, find_async, Batch(), AsyncBatch()]


@pytest.mark.parametrize("retriever", KINDS)
def test_all_kinds_of_retrievers_find_the_same(retriever):
    found = retrieve_all(retriever, QUERIES, 2)
    assert found.results == {query.query_id: rank(query.text, 2) for query in QUERIES}
    assert not found.failures


def test_no_more_than_k_documents_are_kept_or_drawn():
    drawn = count()

    def endless(query, k):
        return (Retrieved(next(drawn)) for _ in count())

    found = retrieve_all(endless, QUERIES[:1], 3)
    assert [result.doc_id for result in found.results["q0"]] == ["0", "1", "2"]
    assert next(drawn) == 3
    told = found.warnings(["ndcg@3", "mrr", "recall@10"])
    assert [text.partition(" ")[0] for text in told] == ["recall@10"]
    assert not list(retrieve_all(rank, QUERIES, 3).warnings(["recall@3"]))


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (("d", 1.0), "WrongType: results['q1'][0]: must be a text, a Retrieved"),
        ({"name": "d"}, "WrongType: results['q1'][0]: must be a text, a Retrieved"),
        ({"text": 3}, "WrongType: results['q1'][0].text: must be text, not int"),
        ({"text": "a", "score": "1"}, "InvalidArgument: results['q1'][0].score: must be a finite"),
    ],
)
def test_rows_that_are_no_results_are_failures_that_name_them(row, told):
    found = retrieve_all(lambda q, k: rank(q, k) if q == "text 0" else [row], QUERIES[:2], 2)
    assert list(found.failures) == ["q1"]
    assert found.failures["q1"].startswith(told)
    with pytest.raises(WrongType, match=r"^results\['q0'\]: the retriever returned None .* \[\]"):
        retrieve_all(lambda q, k: None, QUERIES, 2)
    with pytest.raises(TypeError, match="not one text"):
        retrieve_all(lambda q, k: "text", QUERIES, 2)
    with pytest.raises(TypeError, match="make it an `async def`"):
        retrieve_all(lambda q, k: find_async(f"{q}", k), QUERIES, 2)


def test_a_retriever_that_always_fails_raises_its_first_failure():
    numbers = count()

    def fails(query, k):
        raise KeyError(next(numbers))

    with pytest.raises(KeyError, match="0"):
        retrieve_all(fails, QUERIES, 2)
    with pytest.raises(InvalidArgument, match="holds 1 lists for 6 queries"):
        retrieve_all(ShortBatch(), QUERIES, 2)


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([2, 3, 0], "fewer than k = 5 documents for every query, at most 3; raise a limit of its"),
        ([0, 0], "returned nothing for any query; is its index empty?"),
    ],
)
def test_too_few_for_every_query_are_one_warning(lengths, message):
    left = iter(lengths)
    found = retrieve_all(lambda q, k: rank(q, next(left)), QUERIES[: len(lengths)], 5)
    [told] = found.warnings(["recall@5"])
    assert message in told


def test_scores_that_rise_with_rank_are_told():
    found = retrieve_all(lambda q, k: [Retrieved("a", 0.1), Retrieved("b", 0.2)], QUERIES, 2)
    [told] = found.warnings(["recall@2"])
    assert "6 of 6 queries of the results have scores that rise with rank" in told
