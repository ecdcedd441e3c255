"""TREC judgements and runs."""

import gzip

import pytest
from judged.evaluation import FileError, TrecQrels, TrecRun


def write(tmp_path, text):
    path = tmp_path / "file.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


class TestTrecQrels:
    def test_reads_grades_by_topic(self, tmp_path):
        path = write(tmp_path, "301 0 d1 1\n301\t0\td2\t-2\n\n302 Q0 \xa0x 0\r\n")
        assert TrecQrels.from_file(path).grades == {"301": {"d1": 1, "d2": -2}, "302": {"\xa0x": 0}}

    def test_reads_gzip(self, tmp_path):
        path = write(tmp_path, gzip.compress(b"301 0 d1 1\n"))
        assert TrecQrels.from_file(path).grades == {"301": {"d1": 1}}

    @pytest.mark.parametrize(
        ("line", "problem"),
        [
            ("301 0 d1", "has 3 columns instead of 4: topic 0 document grade"),
            ("301 0 d1 1 x", "has 5 columns instead of 4"),
            ("301 0 d1 1.0", "the grade '1.0' is not a whole number"),
            ("301 0 d1 1_0", "the grade '1_0' is not a whole number"),
            ("301 0 d1 \u0663", "the grade '\u0663' is not a whole number"),
            ("301 0 d1 --1", "the grade '--1' is not a whole number"),
            ("301 0 d1 2147483648", "the grade '2147483648' is not a whole number"),
            ("301 0 d0 1", "judges 'd0' again for topic '301'"),
            (b"301 0 d\xff 1", "is not UTF-8"),
        ],
    )
    def test_names_the_line_that_is_wrong(self, tmp_path, line, problem):
        raw = line if isinstance(line, bytes) else line.encode()
        path = write(tmp_path, b"301 0 d0 1\n" + raw)
        with pytest.raises(FileError) as caught:
            TrecQrels.from_file(path)
        assert str(caught.value).startswith(f"{path}:2: {problem}")

    def test_must_hold_something(self, tmp_path):
        with pytest.raises(FileError, match="holds no judgement"):
            TrecQrels.from_file(write(tmp_path, " \n"))


class TestTrecRun:
    def test_reads_scores_in_the_order_of_the_file(self, tmp_path):
        path = write(tmp_path, "301 Q0 d1 2 1.5 tag\n301 Q0 d2 1 -3e2 tag\n302 Q0 d1 1 0 t\n")
        run = TrecRun.from_file(path)
        assert run == TrecRun({"301": {"d1": 1.5, "d2": -300.0}, "302": {"d1": 0.0}})
        assert list(run.scores["301"]) == ["d1", "d2"]

    def test_keeps_the_first_of_repeated_documents_and_counts_the_others(self, tmp_path):
        path = write(tmp_path, "1 Q0 d 1 2 t\n1 Q0 d 2 1 t\n2 Q0 d 1 5 t\n1 Q0 d 3 9 t\n")
        assert TrecRun.from_file(path) == TrecRun({"1": {"d": 2.0}, "2": {"d": 5.0}}, 2)

    @pytest.mark.parametrize(
        ("line", "problem"),
        [
            ("301 Q0 d1 1 0.5", "has 5 columns instead of 6: topic Q0 document rank score tag"),
            ("301 Q0 d1 1 0.5 my tag", "has 7 columns instead of 6"),
            ("301 Q0 d1 1 high t", "the score 'high' is not a finite number"),
            ("301 Q0 d1 1 nan t", "the score 'nan' is not a finite number"),
            ("301 Q0 d1 1 inf t", "the score 'inf' is not a finite number"),
            ("301 Q0 d1 1 1_0 t", "the score '1_0' is not a finite number"),
            ("301 Q0 d1 1 \u0663 t", "the score '\u0663' is not a finite number"),
            ("301 Q0 d1 1 4e38 t", "the score '4e38' is not a finite number in single precision"),
        ],
    )
    def test_names_the_line_that_is_wrong(self, tmp_path, line, problem):
        path = write(tmp_path, f"301 Q0 d0 1 0.5 t\n\n{line}\n")
        with pytest.raises(FileError) as caught:
            TrecRun.from_file(path)
        assert str(caught.value).startswith(f"{path}:3: {problem}")

    def test_must_hold_something(self, tmp_path):
        with pytest.raises(FileError, match="holds no retrieved document"):
            TrecRun.from_file(write(tmp_path, ""))
