"""Joining a run with qrels: trec_eval's order, what is skipped, what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.errors import InvalidField
from judged_server.metrics.input.trec import Qrels, Topics, rank_run

from tests.trec import Topic, qrels_of, run_of


def ranked_run(qrels, run, **options):
    return rank_run(qrels_of(qrels), run_of(run), **options)


def gains_of(ids, scores, grades):
    qrels = [Topic("q", list(grades), list(grades.values()))]
    return ranked_run(qrels, [Topic("q", ids, scores)]).rankings.gains.tolist()


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
    assert ranked_run(qrels, run).rankings.gains.tolist() == expected


def test_topics_with_and_without_scores_mix():
    qrels = [Topic(q, ["a", "b"], [1, 2]) for q in ("x", "y")]
    run = [Topic("y", ["b", "a"], [0.5, 0.7]), Topic("x", ["b", "a"])]
    assert ranked_run(qrels, run).rankings.gains.tolist() == [2.0, 1.0, 1.0, 2.0]


def test_negative_grades_count_as_zero_and_unjudged_documents_too():
    ranked = ranked_run([Topic("q", ["a", "b"], [-1, 2])], [Topic("q", ["a", "u", "b"])])
    assert ranked.rankings.gains.tolist() == [0.0, 0.0, 2.0]
    assert ranked.rankings.ideal_gains.tolist() == [2.0]
    only_negative = ranked_run([Topic("q", ["a"], [-1])], [Topic("q", ["a"])])
    assert only_negative.rankings.gains.tolist() == [0.0]
    assert only_negative.rankings.n_relevant.tolist() == [0]


def test_the_pool_tells_judged_unsampled_and_unjudged_documents_apart():
    qrels = [Topic("q", ["a", "b", "c", "d", "e"], [0, 2, -1, 0, -1]), Topic("r", ["a"], [1])]
    run = [Topic("q", ["u", "c", "b", "a"], [1.0, 3.0, 2.0, 4.0]), Topic("r", ["b"])]
    pool = ranked_run(qrels, run).rankings.pool
    assert pool.judged.tolist() == [True, False, True, False, False]
    assert pool.unsampled.tolist() == [False, True, False, False, False]
    assert pool.n_nonrelevant.tolist() == [2, 0]


def test_topics_that_do_not_meet_are_skipped_and_counted():
    qrels = [Topic("q1", ["a"], [1]), Topic("q2", ["a"], [1]), Topic("q3", ["a"], [0])]
    run = [Topic("q9", ["a"]), Topic("q3", ["a"]), Topic("q1", ["b", "a"])]
    ranked = ranked_run(qrels, run)
    assert ranked.rows.tolist() == [0, 2]
    assert (ranked.skipped_missing, ranked.skipped_unjudged) == (1, 1)
    assert ranked.rankings.n_retrieved.tolist() == [2, 1]
    assert ranked.rankings.n_relevant.tolist() == [1, 0]
    complete = ranked_run(qrels, run, complete=True)
    assert complete.rows.tolist() == [0, 1, 2]
    assert complete.rankings.n_retrieved.tolist() == [2, 0, 1]
    assert complete.skipped_missing == 0


def test_nothing_at_all():
    ranked = ranked_run([], [])
    assert ranked.rankings.n_queries == 0
    assert ranked_run([Topic("q", [], [])], [Topic("q", [])]).rankings.n_retrieved.tolist() == [0]


def test_the_first_of_a_repeated_document_is_kept():
    qrels = [Topic("q", ["a", "b"], [1, 2])]
    run = [Topic("q", ["a", "b", "a"], [0.5, 1.0, 9.0]), Topic("other", ["c", "c"])]
    ranked = ranked_run(qrels, run)
    assert ranked.rankings.gains.tolist() == [2.0, 1.0]
    assert ranked.duplicates == 2
    unscored = ranked_run(qrels, [Topic("q", ["a", "a", "b"])])
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
        ([*ONE, Topic("r", ["a"], [-INFINITY])], ONE, False, "qrels[1].grades[0]"),
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
        ranked_run(qrels, run, strict_duplicates=strict)
    assert caught.value.field == f"trec.{path}"


def test_columns_of_two_lengths_are_told_with_both():
    with pytest.raises(InvalidField, match=r"\.grades: has 2 entries for 1 documents$"):
        ranked_run([Topic("q", ["a"], [1, 2])], [])
    with pytest.raises(InvalidField, match=r"\.scores: has 2 entries for 1 documents$"):
        ranked_run(ONE, [Topic("q", ["a"], [1.0, 2.0])])


def test_the_largest_single_precision_score_is_fine():
    largest = float(np.finfo(np.float32).max)
    assert gains_of(["a", "b"], [-largest, largest], DISTINCT) == [2.0, 1.0]


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
    rankings, pool = ranked.rankings, ranked.rankings.pool
    arrays = [rankings.offsets, rankings.gains, rankings.ideal_offsets, rankings.ideal_gains]
    arrays += [pool.judged, pool.unsampled, pool.n_nonrelevant, ranked.rows]
    counts = (ranked.skipped_missing, ranked.skipped_unjudged, ranked.duplicates)
    return [array.tolist() for array in arrays], counts


@given(TOPICS, st.randoms(use_true_random=False))
def test_documents_in_any_order_rank_alike(topics, rng):
    def columns(query_id, documents):
        shuffled = list(documents.items())
        rng.shuffle(shuffled)
        return Topic(query_id, [name for name, _ in shuffled], [value for _, value in shuffled])

    qrels = {f"q{i}": grades for i, (grades, _) in enumerate(topics)}
    run = {f"q{i}": scores for i, (_, scores) in enumerate(topics) if i % 3 or not i}
    expected = arrays_of(
        ranked_run(
            [Topic(t, list(d), list(d.values())) for t, d in qrels.items()],
            [Topic(t, list(d), list(d.values())) for t, d in run.items()],
        )
    )
    assert (
        arrays_of(
            ranked_run([columns(*t) for t in qrels.items()], [columns(*t) for t in run.items()])
        )
        == expected
    )


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


@pytest.mark.parametrize(
    ("qrels", "run", "path"),
    [
        (Topic("q", "aba", [1, 1, 1]), Topic("q", "a", [0]), "qrels[1].document_ids[2]"),
        (Topic("q", "a", [1]), Topic("q", "ab", [1.0, NAN]), "run[1].scores[1]"),
        (Topic("q", "a", [1]), Topic("q", "abb", [1.0] * 3), "run[1].document_ids[2]"),
        (Topic("p", "a", [1]), Topic("q", "a", [1.0]), "qrels[1].query_id"),
        (Topic("q", "a", [1]), Topic("p", "a", [1.0]), "run[1].query_id"),
        (Topic("x", "aa", [1, 1]), Topic("q", "a", [1.0]), "qrels[1].document_ids[1]"),
        (Topic("q", "a", [1]), Topic("x", "aa", [1.0, 1.0]), "run[1].document_ids[1]"),
    ],
)
def test_refused_input_that_came_in_columns_is_named_alike(qrels, run, path):
    first = Topic("p", ["a"], [1])
    with pytest.raises(InvalidField) as caught:
        ranked_columns([first, qrels], [first, run], strict_duplicates=True)
    assert caught.value.field == f"trec.{path}"


def test_numbers_of_topics_that_are_not_evaluated_are_looked_at_too():
    for qrels, run, path in (
        ([*ONE, Topic("r", ["a"], [NAN])], ONE, "qrels[1].grades[0]"),
        (ONE, [*ONE, Topic("r", ["a"], [INFINITY])], "run[1].scores[0]"),
    ):
        with pytest.raises(InvalidField) as caught:
            ranked_run(qrels, run)
        assert caught.value.field == f"trec.{path}"


JUDGED = [
    Topic("q", ["a", "b", "c", "d"], [0, 2, -1, 3]),
    Topic("r", [], []),
    Topic("s", ["a", "e"], [1, 0]),
]


def test_the_ideal_is_what_could_be_found():
    qrels = qrels_of(JUDGED)
    offsets, gains = qrels.ideal
    assert dict(qrels.row_of) == {"q": 0, "r": 1, "s": 2}
    assert (offsets.tolist(), gains.tolist()) == ([0, 2, 2, 3], [3, 2, 1])
    assert qrels.n_nonrelevant.tolist() == [1, 0, 1]
    assert qrels_of([]).ideal[0].tolist() == [0]


def test_what_repeats_is_told_with_the_first_of_its_kind():
    for qrels, run, told in (
        ([Topic(t, "x", [1]) for t in "abcbb"], [], "qrels[3].query_id: is that of trec.qrels[1]"),
        ([Topic("x", "abb", [1, 1, 1])], [], "qrels[0].document_ids[2]: has the id of entry 1"),
        (
            ONE,
            [Topic("x", "a"), Topic("y", "aba")],
            "run[1].document_ids[2]: has the id of entry 0",
        ),
    ):
        with pytest.raises(InvalidField) as caught:
            ranked_run(qrels, run, strict_duplicates=True)
        assert caught.value.message.startswith(f"trec.{told}")
