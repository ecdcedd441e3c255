"""Files of scored pairs, and the rank correlation against SciPy's."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from benchmarks.stsb import DataError, Pair, flips, prose_pairs, read_pairs, spearman

PUBLISHED = (
    'main\tnews\t2012\t0001\t4.5\tA "quoted text.\tAnother text.\nx\ty\tz\t2\t0\tc\td\textra\n'
)
GLUE = "index\tsentence1\tsentence2\tscore\n0\ta\tb\t1.25\n"
JSONL = '{"sentence1": "a", "sentence2": "b", "score": 1.25, "more": 1}\n\n'


def _read(tmp_path, content: str):
    path = tmp_path / "pairs"
    path.write_text(content, encoding="utf-8")
    return read_pairs(path)


class TestReadPairs:
    def test_the_published_layout(self, tmp_path):
        expected = [Pair('A "quoted text.', "Another text.", 4.5), Pair("c", "d", 0.0)]
        assert _read(tmp_path, PUBLISHED) == expected

    @pytest.mark.parametrize("content", [GLUE, "\ufeff" + GLUE, JSONL])
    def test_named_fields(self, tmp_path, content):
        assert _read(tmp_path, content) == [Pair("a", "b", 1.25)]

    @pytest.mark.parametrize(
        ("content", "problem"),
        [
            ("", "is empty"),
            ("a\tb\n", ":1: has 2 columns"),
            (GLUE + "0\ta\n", ":3: has 2 columns"),
            (GLUE + "0\ta\tb\tnan\n", ":3: wants"),
            (GLUE + "0\ta\tb\tgood\n", ":3: wants"),
            ('{"sentence1": "a"}\n', ":1: is no object"),
            (JSONL + "[]\n", ":2: is no object"),
            ('{"sentence1": 1, "sentence2": "b", "score": 1}\n', ":1: wants"),
        ],
    )
    def test_what_is_off_is_named_by_line(self, tmp_path, content, problem):
        with pytest.raises(DataError, match=problem):
            _read(tmp_path, content)

    def test_a_file_that_is_not_there(self, tmp_path):
        with pytest.raises(DataError, match="can't be read"):
            read_pairs(tmp_path / "nowhere")


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(-1, 1)), min_size=3))
def test_spearman_is_scipys(pairs):
    x, y = zip(*pairs, strict=True)
    assume(len(set(x)) > 1 and len(set(y)) > 1)
    assert spearman(x, y) == pytest.approx(spearmanr(x, y).statistic, abs=1e-12)


def test_flips_are_counted_at_the_threshold():
    ours, reference = np.array([0.75, 0.74, 0.9, 0.1]), np.array([0.74, 0.75, 0.9, 0.1])
    assert flips(ours, reference, 0.75) == 0.5
    assert math.isclose(flips(reference, reference, 0.75), 0.0)


def test_pairs_of_prose_have_no_score():
    pairs = prose_pairs(30)
    assert len(pairs) == 30
    assert {pair.score for pair in pairs} == {None}
