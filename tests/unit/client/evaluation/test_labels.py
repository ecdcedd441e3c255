"""Files of human labels: what they may hold, and which contexts of a group they belong to."""

import json

import pytest
from judged import JudgedRanking, QueryGroup
from judged._files import FileError
from judged.evaluation.labels import Labels

GROUPS = [
    QueryGroup("?", ["e1", "e2"], ["r1", "r2"], query_id="q1"),
    QueryGroup("?", ["e1"], ["r1", "r2", "r1"], "q2", ["d1", "d2", "d1"]),
    QueryGroup("?", [], ["r1"], "q3", ["d1"], ["d9"]),
]


def read(tmp_path, *lines):
    path = tmp_path / "labels.jsonl"
    path.write_text(
        "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    )
    return Labels.from_jsonl(path)


def test_labels_are_read_as_sheets_write_them(tmp_path):
    labels = read(tmp_path, {"query_id": "q1", "relevant": [[1, "FALSE"], ["0", "true"]]})
    assert labels.by_query == {"q1": [[True, False], [False, True]]}
    human = labels.rankings(GROUPS)
    assert human.rankings == [JudgedRanking("q1", 2, 2)]
    assert human.relevant == [True, False, False, True]


def test_labels_of_repeated_results_are_left_out(tmp_path):
    labels = read(
        tmp_path,
        {"query_id": "q2", "relevant": [[True], [False], [False]]},
        {"query_id": "q1", "relevant": [[False] * 2] * 2},
    )
    human = labels.rankings(GROUPS)
    assert human.rankings == [JudgedRanking("q2", 1, 2), JudgedRanking("q1", 2, 2)]
    assert human.relevant == [True, False, False, False, False, False]


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([{"query_id": "q1"}], ":1: has no 'relevant'"),
        (
            [{"query_id": "q1", "relevant": [[True, "yes"]]}],
            "has 'relevant[0][1]' that is neither true nor false",
        ),
        (
            [{"query_id": "q1", "relevant": []}, {"query_id": "q1", "relevant": []}],
            ":2: query 'q1' was on line 1 already",
        ),
        ([{"query_id": "q1", "relevant": [True, False]}], "has 'relevant[0]' that is not a list"),
        ([], "holds no labels"),
    ],
)
def test_a_bad_file_is_named_with_its_line(tmp_path, lines, says):
    with pytest.raises(FileError) as caught:
        read(tmp_path, *lines)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("query_id", "relevant", "says"),
    [
        ("q9", [[True]], "query 'q9' is no query of the dataset"),
        ("q1", [[True]], "must have 2 lists of 2 labels, one a result"),
        ("q1", [[True], [True, False, True]], "must have 2 lists of 2 labels"),
        ("q3", [[True]], "is matched by document id"),
    ],
)
def test_labels_that_fit_no_group_are_named_with_their_line(tmp_path, query_id, relevant, says):
    labels = read(tmp_path, "", {"query_id": query_id, "relevant": relevant})
    with pytest.raises(FileError, match=r"labels\.jsonl:2: ") as caught:
        labels.rankings(GROUPS)
    assert says in str(caught.value)
