"""Joining a run with qrels: trec_eval's order, what is skipped, what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.errors import InvalidField
from judged_server.metrics.trec import Topic, rank_run


def gains_of(ids, scores, grades):
    qrels = [Topic("q", list(grades), list(grades.values()))]
    return rank_run(qrels, [Topic("q", ids, scores)]).rankings.gains.tolist()


DISTINCT = {"a": 1, "b": 2, "c": 3, "d": 4}


def test_the_larger_score_comes_first():
    assert gains_of(["a", "b", "c"], [0.1, 3.0, -2.0], DISTINCT) == [2.0, 1.0, 3.0]


def test_without_scores_the_given_order_holds():
    assert gains_of(["b", "a", "c"], [], DISTINCT) == [2.0, 1.0, 3.0]


def test_ties_go_to_the_larger_id():
    assert gains_of(["a", "c", "d", "b"], [1.0, 1.0, 5.0, 1.0], DISTINCT) == [4.0, 3.0, 2.0, 1.0]


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
    assert rank_run(qrels, run).rankings.gains.tolist() == expected


def test_topics_with_and_without_scores_mix():
    qrels = [Topic(q, ["a", "b"], [1, 2]) for q in ("x", "y")]
    run = [Topic("y", ["b", "a"], [0.5, 0.7]), Topic("x", ["b", "a"])]
    assert rank_run(qrels, run).rankings.gains.tolist() == [2.0, 1.0, 1.0, 2.0]


def test_negative_grades_count_as_zero_and_unjudged_documents_too():
    ranked = rank_run([Topic("q", ["a", "b"], [-1, 2])], [Topic("q", ["a", "u", "b"])])
    assert ranked.rankings.gains.tolist() == [0.0, 0.0, 2.0]
    assert ranked.rankings.ideal_gains.tolist() == [2.0]
    only_negative = rank_run([Topic("q", ["a"], [-1])], [Topic("q", ["a"])])
    assert only_negative.rankings.gains.tolist() == [0.0]
    assert only_negative.rankings.n_relevant.tolist() == [0]


def test_the_pool_tells_judged_unsampled_and_unjudged_documents_apart():
    qrels = [Topic("q", ["a", "b", "c", "d", "e"], [0, 2, -1, 0, -1]), Topic("r", ["a"], [1])]
    run = [Topic("q", ["u", "c", "b", "a"], [1.0, 3.0, 2.0, 4.0]), Topic("r", ["b"])]
    pool = rank_run(qrels, run).rankings.pool
    assert pool.judged.tolist() == [True, False, True, False, False]
    assert pool.unsampled.tolist() == [False, True, False, False, False]
    assert pool.n_nonrelevant.tolist() == [2, 0]


def test_topics_that_do_not_meet_are_skipped_and_counted():
    qrels = [Topic("q1", ["a"], [1]), Topic("q2", ["a"], [1]), Topic("q3", ["a"], [0])]
    run = [Topic("q9", ["a"]), Topic("q3", ["a"]), Topic("q1", ["b", "a"])]
    ranked = rank_run(qrels, run)
    assert ranked.rows.tolist() == [0, 2]
    assert (ranked.skipped_missing, ranked.skipped_unjudged) == (1, 1)
    assert ranked.rankings.n_retrieved.tolist() == [2, 1]
    assert ranked.rankings.n_relevant.tolist() == [1, 0]
    complete = rank_run(qrels, run, complete=True)
    assert complete.rows.tolist() == [0, 1, 2]
    assert complete.rankings.n_retrieved.tolist() == [2, 0, 1]
    assert complete.skipped_missing == 0


def test_nothing_at_all():
    ranked = rank_run([], [])
    assert ranked.rankings.n_queries == 0
    assert rank_run([Topic("q", [], [])], [Topic("q", [])]).rankings.n_retrieved.tolist() == [0]


def test_the_first_of_a_repeated_document_is_kept():
    qrels = [Topic("q", ["a", "b"], [1, 2])]
    run = [Topic("q", ["a", "b", "a"], [0.5, 1.0, 9.0]), Topic("other", ["c", "c"])]
    ranked = rank_run(qrels, run)
    assert ranked.rankings.gains.tolist() == [2.0, 1.0]
    assert ranked.duplicates == 2
    unscored = rank_run(qrels, [Topic("q", ["a", "a", "b"])])
    assert unscored.rankings.gains.tolist() == [1.0, 2.0]


ONE = [Topic("q", ["a"], [1])]


NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("qrels", "run", "strict", "path"),
    [
        ([*ONE, *ONE], [], False, "qrels[1].query_id"),
        (ONE, [Topic("q", []), Topic("r", []), Topic("q", [])], False, "run[2].query_id"),
        ([*ONE, Topic("r", ["a", "b", "a"], [1, 1, 1])], [], False, "qrels[1].document_ids[2]"),
        ([Topic("q", ["a"], [1, 2])], [], False, "qrels[0].grades"),
        ([Topic("q", ["a"], [])], [], False, "qrels[0].grades"),
        ([Topic("q", ["a", "b"], [1, NAN])], [Topic("q", [])], False, "qrels[0].grades[1]"),
        (ONE, [Topic("q", ["a"], [1.0, 2.0])], False, "run[0].scores"),
        (ONE, [Topic("r", ["a"], [1.0, 2.0])], False, "run[0].scores"),
        (ONE, [Topic("q", ["a"]), Topic("r", ["a", "b"], [1, NAN])], False, "run[1].scores[1]"),
        (ONE, [Topic("q", ["a", "b"], [1, INFINITY])], False, "run[0].scores[1]"),
        (ONE, [Topic("q", ["a", "b"], [1, -3.5e38])], False, "run[0].scores[1]"),
        (ONE, [Topic("q", ["a", "b", "b"])], True, "run[0].document_ids[2]"),
        (ONE, [Topic("r", ["b", "b"])], True, "run[0].document_ids[1]"),
    ],
)
def test_refused_input_is_named(qrels, run, strict, path):
    with pytest.raises(InvalidField) as caught:
        rank_run(qrels, run, strict_duplicates=strict)
    assert caught.value.field == f"trec.{path}"


def test_the_largest_single_precision_score_is_fine():
    largest = float(np.finfo(np.float32).max)
    assert gains_of(["a", "b"], [-largest, largest], DISTINCT) == [2.0, 1.0]
