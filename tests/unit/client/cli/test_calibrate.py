from __future__ import annotations

import pytest
from judged.cli.calibrate import _items, _Scored, read_labels
from judged.evaluation import FileError

TEXTS = '"query": "q", "expected_text": "e", "retrieved_text": "r"'


def write(tmp_path, *lines):
    path = tmp_path / "labels.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_lines_hold_a_context_a_label_or_none_and_a_cluster(tmp_path):
    path = write(
        tmp_path,
        f'{{{TEXTS}, "relevant": true, "query_id": 7}}',
        f'{{{TEXTS}, "relevant": null}}',
        f"{{{TEXTS}}}",
    )
    lines = read_labels(path, scored=False)
    assert [line.label for line in lines] == [True, None, None]
    assert [line.query_id for line in lines] == ["7", None, None]
    assert lines[0].context.retrieved_text == "r"
    assert _items(_Scored(lines, [1.0, 0.5, 0.0], None, None)).clusters == [
        "query 7",
        "line 2",
        "line 3",
    ]


def test_lines_with_scores_need_no_texts(tmp_path):
    path = write(tmp_path, '{"score": 0.25, "relevant": false}', '{"score": 1}')
    lines = read_labels(path, scored=True)
    assert [line.score for line in lines] == [0.25, 1.0]
    assert _items(_Scored(lines, [0.25, 1.0], None, None)).clusters == []


@pytest.mark.parametrize(
    ("line", "scored", "problem"),
    [
        (f'{{{TEXTS}, "relevant": 1}}', False, "neither true, false nor null"),
        ('{"query": "q", "relevant": true}', False, "has no 'expected_text'"),
        ('{"relevant": true}', True, "has no 'score'"),
        ('{"relevant": true, "score": 1.5}', True, "not in 0 to 1"),
        ('{"relevant": true, "score": "1"}', True, "not a number"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, scored, problem):
    with pytest.raises(FileError, match=problem) as caught:
        read_labels(write(tmp_path, line), scored=scored)
    assert caught.value.line == 1


def test_a_file_without_a_label_is_refused(tmp_path):
    with pytest.raises(FileError, match="label some lines"):
        read_labels(write(tmp_path, '{"score": 1}'), scored=True)
