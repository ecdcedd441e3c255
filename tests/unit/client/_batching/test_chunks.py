"""Groups of any size: how they are cut, what is made of the replies, and the drop of repeats."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged import Context, Embeddings, InvalidArgument, QueryGroup, Span, Spans, Status
from judged._batching import judging as chunking
from judged._batching.judging import Batch, at_ranks, cut, distinct_group, distinct_ranks, fold
from judged.errors import InternalError
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import verdicts_pb2
from judged.values.groups import Verdicts, join_verdicts
from judged.values.judges import JudgeIdentity, Usage


def sent(batch: Batch) -> list[Any]:
    return list(batch.requests())


def reply_to(request: pb.BatchJudgeRequest) -> pb.BatchJudgeResponse:
    """Score each context by its texts, whose lengths tell them apart, as a server would."""
    contexts = [(r, e) for group in request.groups for r in group.retrieved for e in group.expected]
    score = [1e3 * len(r) + len(e) for r, e in contexts]
    failed = [
        verdicts_pb2.VerdictError(index=i, message=str(int(value)))
        for i, value in enumerate(score)
        if value % 7 == 3
    ]
    columns = verdicts_pb2.VerdictColumns(relevant=[True] * len(score), score=score, errors=failed)
    return pb.BatchJudgeResponse(verdicts=columns)


texts = st.lists(st.integers(0, 60).map(lambda n: "x" * n), max_size=9)


@given(
    st.lists(st.tuples(texts, texts), min_size=1, max_size=6),
    st.integers(1, 120),
    st.integers(1, 12),
)
def test_any_cut_is_put_together_in_order(sides, characters, contexts):
    batch = Batch([QueryGroup("q", expected, retrieved) for expected, retrieved in sides])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunking, "CHUNK_CHARACTERS", characters)
        patch.setattr(chunking, "CHUNK_CONTEXTS", contexts)
        for chunk, request in sent(batch):
            n = sum(len(group.expected) * len(group.retrieved) for group in request.groups)
            single = len(chunk) == 1 and chunk[0].end - chunk[0].start <= 1
            assert n <= contexts or single
            batch.take(chunk, reply_to(request))
    verdicts = batch.verdicts()
    wanted = [
        1e3 * len(r) + len(e) for expected, retrieved in sides for r in retrieved for e in expected
    ]
    assert list(verdicts.score) == wanted
    assert [verdicts.offsets[0], verdicts.offsets[-1]] == [0, len(wanted)]
    assert len(verdicts.offsets) == len(sides) + 1
    assert {i: int(e.message) for i, e in verdicts.errors.items()} == {
        i: int(value) for i, value in enumerate(wanted) if value % 7 == 3
    }


def test_vectors_and_spans_are_cut_with_their_results(monkeypatch):
    vectors = Embeddings.from_rows([[1.0, 0.0]], [[float(i), 1.0] for i in range(20_000)])
    parts = [piece.part() for (piece,) in cut([QueryGroup(embeddings=vectors)])]
    assert len(parts) > 1
    assert b"".join(part.embeddings.retrieved for part in parts) == vectors.retrieved
    retrieved = [Span("r" * 200, i, i + 1) for i in range(10)]
    group = QueryGroup(spans=Spans([Span("e", 0, 1)] * 2, retrieved))
    for name, most, sizes in (
        ("CHUNK_CONTEXTS", 6, [3, 3, 3, 1]),
        ("CHUNK_CHARACTERS", 400, [3, 3, 3, 1]),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(chunking, name, most)
            spans = [piece.part().spans for (piece,) in cut([group])]
            assert [len(part.retrieved) for part in spans] == sizes
            assert [span for part in spans for span in part.retrieved] == retrieved
            assert [len(chunk) for chunk in cut([group], evaluated=True)] == [1]


def test_contexts_of_a_cross_product_fold_into_one_group():
    contexts = [Context("q", e, r) for r in ("r0", "r1", "r2") for e in ("e0", "e1")]
    assert fold(contexts) == [QueryGroup("q", ["e0", "e1"], ["r0", "r1", "r2"])]


@given(st.lists(st.tuples(*[st.sampled_from("ab")] * 3), max_size=30))
def test_folded_contexts_keep_their_order(triples):
    groups = fold([Context(*triple) for triple in triples])
    unfolded = [(g.query, e, r) for g in groups for r in g.retrieved for e in g.expected]
    assert unfolded == triples


@pytest.mark.parametrize(
    ("inner", "whole"),
    [
        ("groups[0].retrieved[2]", "groups[1].retrieved[6]"),
        ("groups[0].spans.retrieved[2].end", "groups[1].spans.retrieved[6].end"),
        ("groups[0].expected[2]", "groups[1].expected[2]"),
        ("judge.kind", "judge.kind"),
    ],
)
def test_an_error_in_a_chunk_speaks_of_the_batch(inner, whole, monkeypatch):
    monkeypatch.setattr(chunking, "CHUNK_CONTEXTS", 4)
    batch = Batch([QueryGroup("q", ["e"], ["r"] * n) for n in (4, 9)])
    (chunk, _) = sent(batch)[2]
    with pytest.raises(InvalidArgument) as caught:
        batch.take(chunk, InvalidArgument.of_field(inner, "too long"))
    assert caught.value.field == whole
    assert str(caught.value) == f"{whole}: too long"
    assert caught.value.metadata == {"field": whole}


def test_a_failed_chunk_fails_its_own_contexts_and_the_rest_is_put_together(monkeypatch):
    monkeypatch.setattr(chunking, "CHUNK_CONTEXTS", 2)
    batch = Batch([QueryGroup("q", ["e"], ["a", "b", "c"])])
    (first, _), (second, _) = sent(batch)
    batch.take(first, InternalError("no", code="X"))
    columns = verdicts_pb2.VerdictColumns(
        relevant=[True],
        score=[1.0],
        agreement=[0.75],
        details=[verdicts_pb2.VerdictDetail(rationale="because")],
    )
    usage = verdicts_pb2.Usage(calls=1)
    batch.take(second, pb.BatchJudgeResponse(verdicts=columns, usage=usage))
    whole = batch.verdicts()
    assert list(whole.status) == [Status.ERROR] * 2 + [Status.OK]
    assert (whole[0].relevant, whole[0].score, whole[0].error.reason) == (None, None, "X")
    assert whole.agreement == [0.0, 0.0, 0.75]
    assert (whole[2].detail.rationale, whole.usage.calls, whole.usage.cost) == ("because", 1, None)
    assert [row["query"] for row in whole.to_rows()] == ["q"] * 3


def test_too_few_verdicts_are_a_fault_of_the_server():
    batch = Batch([QueryGroup("q", ["e"], ["a", "b"])])
    ((chunk, _),) = sent(batch)
    with pytest.raises(InternalError, match="1 verdicts for 2"):
        batch.take(
            chunk,
            pb.BatchJudgeResponse(
                verdicts=verdicts_pb2.VerdictColumns(relevant=[True], score=[1.0])
            ),
        )


def test_parts_keep_what_few_judges_say():
    identity = JudgeIdentity("k", "", 0.5, "s", "k", "f")
    bare = Verdicts([True], [1.0], [1], [1], [0], [0, 1], {}, identity)
    staged = replace(bare, probability=[0.75], stage=[2], usage=Usage(1))
    joined = join_verdicts([(bare, False), (staged, False)])
    assert (joined.probability, joined.stage, joined.agreement) == ([0.0, 0.75], [0, 2], [])


def test_what_asks_models_is_cut_small():
    batch = Batch([QueryGroup("q", ["e"], ["r"] * 100)], "llm")
    sizes = [sum(len(group.retrieved) for group in request.groups) for _, request in sent(batch)]
    assert sizes == [chunking.ASKED_CONTEXTS, 100 - chunking.ASKED_CONTEXTS]


def group(**fields):
    return QueryGroup("what", **{"query_id": "q", **fields})


def test_drops_the_same_id_with_the_same_text():
    given = group(retrieved=["x", "y", "x", "x"], document_ids=["a", "a", "a", "b"])
    kept = distinct_group(given)
    assert (kept.retrieved, kept.document_ids) == (["x", "y", "x"], ["a", "a", "b"])
    assert list(distinct_ranks(given)) == [0, 1, 3]


@pytest.mark.parametrize(
    "given",
    [group(retrieved=["x", "x"]), group(), group(retrieved=["x", "x"], document_ids=["a", "b"])],
)
def test_leaves_groups_without_repeats_as_they_are(given):
    assert distinct_group(given) is given


def test_drops_vectors_with_their_ids():
    vectors = Embeddings.from_rows([[1.0]], [[1.0], [2.0], [3.0]])
    kept = distinct_group(group(document_ids=["a", "b", "a"], embeddings=vectors))
    assert kept.document_ids == ["a", "b"]
    assert kept.embeddings == Embeddings.from_rows([[1.0]], [[1.0], [2.0]])


def test_tells_spans_of_one_document_apart():
    spans = Spans([], [Span("f", 0, 1), Span("f", 1, 2), Span("f", 0, 1)])
    assert list(distinct_ranks(group(document_ids=["d"] * 3, spans=spans))) == [0, 1]


def test_takes_some_ranks():
    given = group(expected=["e"], retrieved=["x", "y", "z"], document_ids=["a", "b", "c"])
    part = at_ranks(given, range(1, 3))
    assert (part.expected, part.retrieved, part.document_ids) == (["e"], ["y", "z"], ["b", "c"])


def test_a_repeat_is_named_where_it_is_refused():
    with pytest.raises(InvalidArgument) as caught:
        distinct_ranks(
            group(retrieved=["x", "x"], document_ids=["a", "a"]), "groups[3]", strict=True
        )
    assert caught.value.field == "groups[3].document_ids[1]"
