from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged import Context, Embeddings, InvalidArgument, QueryGroup, Span, Spans, Status
from judged._batching import chunks as chunking
from judged._batching.chunks import Piece, cut, fold
from judged._batching.judging import Assembly, Batch, original_path
from judged._convert.judges import write_judge
from judged.values.judges import JudgeIdentity, Usage
from judged.values.verdicts import VerdictDetail, VerdictError, Verdicts, join_verdicts

IDENTITY = JudgeIdentity("k", "", 0.5, "s", "k", "f")


def mark(group: int, r: int, e: int) -> float:
    return group * 1e6 + r * 1e3 + e


def answer(chunk: list[Piece]) -> Verdicts:
    """Return verdicts whose scores say which context they belong to, as a server would see it."""
    score: list[float] = []
    errors: dict[int, VerdictError] = {}
    for piece in chunk:
        part = piece.part()
        assert part.n_retrieved * part.n_expected == piece.n_contexts
        for r in range(part.n_retrieved):
            for e in range(part.n_expected):
                if (piece.r0 + r + piece.e0 + e) % 7 == 3:
                    errors[len(score)] = VerdictError(3, "X", f"{piece.r0 + r}", False)
                score.append(mark(piece.index, piece.r0 + r, piece.e0 + e))
    n = len(score)
    return Verdicts([True] * n, score, [1] * n, [1] * n, [0] * n, [], errors, IDENTITY)


texts = st.lists(st.integers(0, 60).map(lambda n: "x" * n), max_size=9)


@given(
    st.lists(st.tuples(texts, texts), min_size=1, max_size=6),
    st.integers(1, 120),
    st.integers(1, 12),
)
def test_any_cut_is_put_together_in_order(sides, characters, contexts):
    groups = [QueryGroup("q", expected, retrieved) for expected, retrieved in sides]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunking, "CHUNK_CHARACTERS", characters)
        patch.setattr(chunking, "CHUNK_CONTEXTS", contexts)
        chunks = list(cut(groups))
    assembly = Assembly(groups)
    for chunk in reversed(chunks):
        assert sum(piece.n_contexts for piece in chunk) <= max(contexts, 1)
        assembly.add(chunk, answer(chunk))
    verdicts = assembly.verdicts()
    wanted = [
        mark(g, r, e)
        for g, group in enumerate(groups)
        for r in range(len(group.retrieved))
        for e in range(len(group.expected))
    ]
    assert list(verdicts.score) == wanted
    for index, error in verdicts.errors.items():
        assert int(error.message) == int(wanted[index] % 1e6 // 1e3)


def test_one_group_of_thirty_thousand_contexts_is_cut():
    group = QueryGroup("q", ["e" * 600] * 3, ["r" * 600] * 10_000)
    chunks = list(cut([group]))
    assert len(chunks) > 5
    assert sum(piece.n_contexts for chunk in chunks for piece in chunk) == 30_000
    for chunk in chunks:
        size = sum(len(t) for p in chunk for t in (*p.part().expected, *p.part().retrieved))
        assert size <= chunking.CHUNK_CHARACTERS


def test_expected_texts_too_large_for_one_message_are_cut_as_well():
    group = QueryGroup("q", ["e" * (1 << 20)] * 20, ["r" * (1 << 20)] * 2)
    for chunk in cut([group]):
        texts = [t for p in chunk for t in (*p.part().expected, *p.part().retrieved)]
        assert sum(map(len, texts)) <= 2 << 20


def test_a_group_without_contexts_keeps_its_place_and_sends_no_texts():
    groups = [QueryGroup("q", ["e" * (1 << 20)] * 40, []), QueryGroup("q", ["e"], ["r"])]
    (chunk,) = cut(groups)
    assert [piece.part() for piece in chunk] == [QueryGroup(), QueryGroup("q", ["e"], ["r"])]


def test_vectors_are_cut_with_their_texts():
    vectors = Embeddings.from_rows([[1.0, 0.0]], [[float(i), 1.0] for i in range(20_000)])
    group = QueryGroup(embeddings=vectors)
    chunks = list(cut([group]))
    joined = b"".join(piece.part().embeddings.retrieved for chunk in chunks for piece in chunk)
    assert len(chunks) > 1
    assert joined == vectors.retrieved


def test_contexts_of_a_cross_product_fold_into_one_group():
    contexts = [Context("q", e, r) for r in ("r0", "r1", "r2") for e in ("e0", "e1")]
    assert fold(contexts) == [QueryGroup("q", ["e0", "e1"], ["r0", "r1", "r2"])]


@given(st.lists(st.tuples(*[st.sampled_from("ab")] * 3), max_size=30))
def test_folded_contexts_keep_their_order(triples):
    groups = fold([Context(*triple) for triple in triples])
    unfolded = [(g.query, e, r) for g in groups for r in g.retrieved for e in g.expected]
    assert unfolded == triples


def test_groups_and_contexts_do_not_mix():
    with pytest.raises(TypeError, match="not both"):
        fold([QueryGroup(), Context("q", "e", "r")])


def test_an_error_in_a_chunk_speaks_of_the_batch():
    error = InvalidArgument("groups[1].retrieved[2]: too long", metadata={"field": "groups[1]"})
    error.field = "groups[1].retrieved[2]"
    group = QueryGroup("q", ["e"], ["r"] * 9)
    chunk = [Piece(7, group, 0, 9, 0, 1), Piece(8, group, 4, 9, 0, 1)]
    renamed = original_path(chunk, error)
    assert renamed.field == "groups[8].retrieved[6]"
    assert str(renamed) == "groups[8].retrieved[6]: too long"
    assert renamed.metadata == {"field": "groups[8]"}


def test_a_failed_chunk_fails_its_own_contexts_only():
    groups = [QueryGroup("q", ["e"], ["r"] * 3), QueryGroup("q", ["e"], ["r"] * 2)]
    first, second = ([piece] for chunk in cut(groups) for piece in chunk)
    assembly = Assembly(groups)
    assembly.add(first, answer(first))
    assembly.fail(second, InvalidArgument("no", code="X"))
    verdicts = assembly.verdicts()
    assert list(verdicts.status) == [Status.OK] * 3 + [Status.ERROR] * 2
    assert verdicts[4].relevant is None
    assert verdicts[4].score is None
    assert verdicts.coverage == 0.6
    assert sorted(verdicts.errors)[-2:] == [3, 4]


def test_spans_are_cut_with_the_group(monkeypatch):
    monkeypatch.setattr(chunking, "CHUNK_CONTEXTS", 6)
    expected = [Span("e", i, i + 1) for i in range(2)]
    retrieved = [Span("r", i, i + 1) for i in range(10)]
    chunks = list(chunking.cut([QueryGroup(spans=Spans(expected, retrieved))]))
    parts = [piece.part() for chunk in chunks for piece in chunk]
    assert [len(part.spans.retrieved) for part in parts] == [3, 3, 3, 1]
    assert [span for part in parts for span in part.spans.retrieved] == retrieved
    assert all(part.spans.expected == expected for part in parts)
    error = InvalidArgument.of_field("groups[0].spans.retrieved[2].end", "must be above start")
    renamed = original_path(chunks[1], error)
    assert renamed.field == "groups[0].spans.retrieved[5].end"


def test_long_file_names_count(monkeypatch):
    monkeypatch.setattr(chunking, "CHUNK_CHARACTERS", 1000)
    retrieved = [Span("f" * 200, i, i + 1) for i in range(10)]
    chunks = list(chunking.cut([QueryGroup(spans=Spans([Span("e", 0, 1)], retrieved))]))
    assert len(chunks) > 2


def test_votes_details_and_usage_are_put_together(monkeypatch):
    monkeypatch.setattr(chunking, "CHUNK_CONTEXTS", 2)
    groups = [QueryGroup("q", ["e"], ["a", "b", "c"])]
    chunks = list(cut(groups))
    assert [len(chunk) for chunk in chunks] == [1, 1]
    assembly = Assembly(groups)
    assembly.fail(chunks[0], InvalidArgument("no"))
    detail = VerdictDetail("because", [], Usage(1), "m", "")
    answered = Verdicts(
        [True], [1.0], [1], [1], [0], [0, 1], {}, IDENTITY, [0.75], {0: detail}, Usage(1, cost=None)
    )
    assembly.add(chunks[1], answered)
    whole = assembly.verdicts()
    assert whole.agreement == [0.0, 0.0, 0.75]
    assert whole.details == {2: detail}
    assert whole.usage == Usage(1, cost=None)
    assert (whole[0].agreement, whole[2].agreement, whole[2].detail) == (None, 0.75, detail)


def test_parts_keep_what_few_judges_say():
    bare = Verdicts([True], [1.0], [1], [1], [0], [0, 1], {}, IDENTITY)
    staged = replace(bare, probability=[0.75], stage=[2])
    joined = join_verdicts([bare, staged], [False, False])
    assert joined.probability == [0.0, 0.75]
    assert joined.stage == [0, 2]
    assert joined.agreement == []


def test_what_asks_models_is_cut_small():
    requests = Batch([QueryGroup("q", ["e"], ["r"] * 100)], None, None, "llm").requests(
        write_judge("llm"), include_details=False
    )
    sizes = [sum(len(group.retrieved) for group in request.groups) for _, request in requests]
    assert sizes == [chunking.ASKED_CONTEXTS, 100 - chunking.ASKED_CONTEXTS]
