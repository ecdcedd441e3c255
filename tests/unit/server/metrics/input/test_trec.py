"""Runs joined with qrels, and topics in either form."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.errors import InvalidField
from judged_server.metrics.input.rankings import Qrels, Topics, rank_run

from tests.trec import Topic, qrels_of, run_of


def ranked_run(qrels, run, **options):
    return rank_run(qrels_of(qrels), run_of(run), **options)


def gains_of(ids, scores, grades):
    qrels = [Topic("q", list(grades), list(grades.values()))]
    return ranked_run(qrels, [Topic("q", ids, scores)]).rankings.gains.tolist()


DISTINCT = {"a": 1, "b": 2, "c": 3, "d": 4}


def test_scores_compare_in_single_precision():
    assert gains_of(["a", "b"], [1.0 + 1e-12, 1.0], DISTINCT) == [2.0, 1.0]
    assert gains_of(["a", "b"], [0.0, -0.0], DISTINCT) == [2.0, 1.0]
    assert gains_of(["a", "b"], [1e-50, -1e-50], DISTINCT) == [2.0, 1.0]


def test_ids_compare_as_their_bytes():
    # U+FF5E sorts before U+1F600 in UTF-8, but after it in UTF-16.
    grades = {"\uff5e": 1, "\U0001f600": 2, "z": 3, "": 4}
    assert gains_of(list(grades), [0.0] * 4, grades) == [2.0, 1.0, 3.0, 4.0]


@given(
    st.lists(
        st.lists(
            st.tuples(
                st.text(max_size=2), st.sampled_from([0.0, -0.0, 1.0, -1.0, 1.5]) | st.floats(-9, 9)
            ),
            max_size=12,
            unique_by=lambda pair: pair[0],
        ),
        max_size=5,
    )
)
def test_the_order_is_that_of_a_sort_by_score_and_id(topics):
    qrels, run, expected = [], [], []
    for i, pairs in enumerate(topics):
        grades = {document: place + 1 for place, (document, _) in enumerate(pairs)}
        qrels.append(Topic(f"q{i}", list(grades), list(grades.values())))
        run.append(Topic(f"q{i}", [d for d, _ in pairs], [s for _, s in pairs]))
        key = {document: (float(np.float32(s)), document.encode()) for document, s in pairs}
        ordered = sorted(key, key=key.__getitem__, reverse=True)
        expected += [grades[document] for document in ordered]
    assert ranked_run(qrels, run).rankings.gains.tolist() == expected


def test_judged_never_judged_and_unjudged_documents_are_told_apart():
    qrels = [Topic("q", ["a", "b", "c", "d", "e"], [0, 2, -1, 0, -1]), Topic("r", ["a"], [-1])]
    run = [Topic("q", ["u", "c", "b", "a"], [1.0, 3.0, 2.0, 4.0]), Topic("r", ["a"])]
    rankings = ranked_run(qrels, run).rankings
    np.testing.assert_array_equal(rankings.gains, [0.0, -1.0, 2.0, NAN, -1.0])
    assert rankings.n_nonrelevant.tolist() == [2, 0]
    assert (rankings.ideal_gains.tolist(), rankings.n_relevant.tolist()) == ([2.0], [1, 0])


def test_topics_that_do_not_meet_are_skipped_and_counted():
    qrels = [Topic("q1", ["a"], [1]), Topic("q2", ["a"], [1]), Topic("q3", ["a"], [0])]
    run = [Topic("q9", ["a"]), Topic("q3", ["a"]), Topic("q1", ["b", "a"])]
    ranked = ranked_run(qrels, run)
    assert ranked.rows.tolist() == [0, 2]
    assert (ranked.counts.skipped_missing, ranked.counts.skipped_unjudged) == (1, 1)
    assert ranked.rankings.n_retrieved.tolist() == [2, 1]
    assert ranked.rankings.n_relevant.tolist() == [1, 0]
    complete = ranked_run(qrels, run, complete=True)
    assert complete.rows.tolist() == [0, 1, 2]
    assert complete.rankings.n_retrieved.tolist() == [2, 0, 1]
    assert complete.counts.skipped_missing == 0


def test_the_first_of_a_repeated_document_is_kept():
    qrels = [Topic("q", ["a", "b"], [1, 2])]
    run = [Topic("q", ["a", "b", "a"], [0.5, 1.0, 9.0]), Topic("other", ["c", "c"])]
    ranked = ranked_run(qrels, run)
    assert ranked.rankings.gains.tolist() == [2.0, 1.0]
    assert ranked.counts.duplicates == 2
    unscored = ranked_run(qrels, [Topic("q", ["a", "a", "b"])])
    assert unscored.rankings.gains.tolist() == [1.0, 2.0]


ONE = [Topic("q", ["a"], [1])]


NAN, INFINITY = float("nan"), float("inf")


TOPICS = st.lists(
    st.tuples(
        st.dictionaries(st.text("abcd", max_size=3), st.integers(-2, 3), max_size=8),
        st.dictionaries(
            st.text("abcd", max_size=3), st.sampled_from([0.0, -0.0, 1.0, 1.5, -7.25]), max_size=8
        ),
    ),
    max_size=5,
)


def arrays_of(ranked):
    """Everything that a ranked run holds, as lists."""
    rankings = ranked.rankings
    gains = np.nan_to_num(rankings.gains, nan=-9.0)
    arrays = [rankings.offsets, gains, rankings.ideal_offsets, rankings.ideal_gains]
    arrays += [rankings.n_nonrelevant, ranked.rows]
    return [array.tolist() for array in arrays], ranked.counts


def test_ties_of_many_documents_cost_no_more_than_a_sort():
    n = 20_000  # every pair of neighbours ties; looking at each pair anew would take minutes
    ids = [f"d{i:05d}" for i in range(n)]
    scores = [float(i // 2) for i in range(n)]
    ranked = ranked_run([Topic("q", ids, range(1, n + 1))], [Topic("q", ids, scores)])
    assert ranked.rankings.gains.tolist() == list(range(n, 0, -1))


def joined(side, topics):
    """Topics as the wire brings them at its fastest."""
    return Topics.of_columns(
        [topic.query_id for topic in topics],
        np.array([len(topic.document_ids) for topic in topics], np.int64),
        "\n".join(name for topic in topics for name in topic.document_ids),
        np.array([float(value) for topic in topics for value in topic.values]),
        (f"trec.{side[0]}", f"trec.{side[0]}_columns"),
        side[1],
    )


def ranked_columns(qrels, run, **options):
    qrels, run = joined(("qrels", "grades"), qrels), joined(("run", "scores"), run)
    return rank_run(Qrels.of(qrels), run, **options)


@given(
    TOPICS.map(lambda topics: [(q, list(r.items())) for q, r in topics]),
    st.booleans(),
    st.booleans(),
    st.data(),
)
def test_columns_rank_as_single_topics(topics, scored, complete, data):
    qrels = [Topic(f"q{i}", list(q), list(q.values())) for i, (q, _) in enumerate(topics) if i != 3]
    run = []
    for i, (_, pairs) in enumerate(topics):
        if i == 1:
            continue
        some = [*pairs, *data.draw(st.lists(st.sampled_from(pairs), max_size=1))] if pairs else []
        run.append(Topic(f"q{i}", [d for d, _ in some], [s for _, s in some] if scored else []))
    run = data.draw(st.permutations(run))
    # In columns all topics have scores or none; without any they are the places.
    scores = [t if scored else t._replace(values=range(0, -len(t.document_ids), -1)) for t in run]
    expected = arrays_of(ranked_run(qrels, run, complete=complete))
    assert arrays_of(ranked_columns(qrels, scores, complete=complete)) == expected


def test_numbers_of_topics_that_are_not_evaluated_are_looked_at_too():
    for qrels, run, path in (
        ([*ONE, Topic("r", ["a"], [NAN])], ONE, "qrels[1].grades[0]"),
        (ONE, [*ONE, Topic("r", ["a"], [INFINITY])], "run[1].scores[0]"),
    ):
        with pytest.raises(InvalidField) as caught:
            ranked_run(qrels, run)
        assert caught.value.field == f"trec.{path}"


def test_ids_of_any_length_and_letters():
    names = ["", "x" * 300 + "a", "x" * 300 + "b", "é" * 600, "a\nb", "a", "b", "\n"]
    grades = {name: place + 1 for place, name in enumerate(names)}
    scores = list(range(len(names), 0, -1))
    assert gains_of(names, scores, grades) == list(grades.values())
    doubled = [Topic("q", [*names, *names], [*scores, *scores])]
    assert ranked_run([Topic("q", names, scores)], doubled).counts.duplicates == len(names)
