"""The rules about one topic: what passes at the very bound, and how a refusal reads."""

import numpy as np
import pytest
from judged_server.errors import InvalidField
from judged_server.metrics.input import trec_topics
from judged_server.metrics.input.columnar_topics import query_ids
from judged_server.metrics.input.trec_topics import (
    LARGEST_SINGLE,
    Topic,
    check_judgements,
    check_numbers,
    check_unscored,
    packed,
    places_of,
    scores_of,
)

NAN, INFINITY = float("nan"), float("inf")


def refusal(call, *arguments, **options):
    """The whole text of what is refused."""
    with pytest.raises(InvalidField) as caught:
        call(*arguments, **options)
    return caught.value.message


def test_each_topic_has_its_place_by_its_id():
    topics = [Topic("b", []), Topic("a", []), Topic("", [])]
    assert query_ids(topics) == ["b", "a", ""]
    assert places_of(query_ids(topics), "f") == {"b": 0, "a": 1, "": 2}
    assert places_of([], "f") == {}


def test_a_topic_that_comes_again_is_told_with_the_first_of_its_kind():
    assert refusal(places_of, list("abcbb"), "f") == "f[3].query_id: is that of f[1] again"


def test_judgements_are_one_a_document():
    check_judgements(Topic("q", ["a", "b"], [1, 0]), "f")
    check_judgements(Topic("q", []), "f")
    short = Topic("q", ["a", "b"], [1])
    assert refusal(check_judgements, short, "f") == "f.grades: has 1 entries for 2 document ids"
    twice = refusal(check_judgements, Topic("q", ["a", "b", "b"], [1, 1, 1]), "f")
    assert twice.startswith("f.document_ids[2]: ")


def test_documents_without_scores_descend_from_zero():
    scores, dropped = scores_of(Topic("q", ["c", "a", "b"]), "f", strict=True)
    assert (list(scores.items()), dropped) == ([("c", 0), ("a", -1), ("b", -2)], 0)


def test_the_first_of_a_repeated_document_keeps_its_score():
    topic = Topic("q", ["a", "b", "a", "a"], [1.0, 2.0, 3.0, 4.0])
    assert scores_of(topic, "f", strict=False) == ({"a": 1.0, "b": 2.0}, 2)
    assert refusal(scores_of, topic, "f", strict=True).startswith("f.document_ids[2]: ")


def test_scores_are_one_a_document_or_none():
    short = Topic("q", ["a", "b"], [1.0])
    told = refusal(scores_of, short, "f", strict=False)
    assert told == "f.scores: has 1 entries for 2 documents"


def test_as_many_unscored_documents_as_single_precision_counts_are_fine(monkeypatch):
    assert np.float32(trec_topics.MAX_UNSCORED - 1) != np.float32(trec_topics.MAX_UNSCORED)
    check_unscored(trec_topics.MAX_UNSCORED, "f")
    monkeypatch.setattr(trec_topics, "MAX_UNSCORED", 3)
    assert len(scores_of(Topic("q", ["a", "b", "c"]), "f", strict=True)[0]) == 3
    assert refusal(scores_of, Topic("q", ["a", "b", "c", "d"]), "f", strict=True) == (
        "f.document_ids: holds 4 documents without scores; give scores, or 3 at most"
    )


@pytest.mark.parametrize("number", [NAN, INFINITY, -INFINITY, 2 * LARGEST_SINGLE, -3.5e38])
def test_the_first_number_beyond_single_precision_is_named(number):
    topics = [Topic("q", ["a"], [LARGEST_SINGLE]), Topic("r", ["a", "b", "c"], [0, number, number])]
    numbers = np.concatenate([np.array(topic.values, np.float64) for topic in topics])
    assert refusal(check_numbers, numbers, topics, "f.run", "scores") == (
        "f.run[1].scores[1]: must be a finite number within single precision, +-3.4e38"
    )


def test_numbers_up_to_the_largest_of_single_precision_are_fine():
    for numbers in ([LARGEST_SINGLE, -LARGEST_SINGLE], [-1.0, -2.0], [0.0], []):
        # No topic is looked into: what does not stand out costs two comparisons.
        check_numbers(np.array(numbers, np.float64), [Topic("q", ["a"], [NAN])], "f", "scores")


def test_numbers_pack_as_doubles():
    numbers = [1.5, -0.0, 5e-324, INFINITY]
    assert np.frombuffer(packed(dict.fromkeys(numbers).keys())).tolist() == numbers
    assert packed([]) == b""
