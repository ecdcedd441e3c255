"""Lines of contexts, and the verdicts of their alternatives."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged import AnswerItem, Context, InvalidArgument, QueryGroup, Source, Status, Verdicts
from judged.cli.inputs import (
    ContextFile,
    FoldedLines,
    Line,
    of_lines,
    read_answers,
)
from judged.cli.output import explain
from judged.evaluation import FileError
from judged.values import JudgeIdentity, VerdictError


class TestReadContexts:
    def test_keeps_numbers_and_other_fields(self, tmp_path):
        path = tmp_path / "c.jsonl"
        path.write_text('\n{"query": "", "expected_text": "e", "retrieved_text": "r", "n": 1}\n')
        (line,) = ContextFile(str(path))
        assert (line.number, line.contexts, line.fields["n"]) == (2, [Context("", "e", "r")], 1)

    @pytest.mark.parametrize(
        ("fields", "expected"),
        [
            ({"expected_text": "a", "expected_alternatives": ["b", "a", " "]}, ["a", "b"]),
            ({"expected_alternatives": ["b", "a"]}, ["b", "a"]),
            ({"expected_text": "", "expected_alternatives": []}, [""]),
            ({"expected_text": "a", "expected_alternatives": None}, ["a"]),
        ],
    )
    def test_alternatives_are_contexts_of_one_line(self, tmp_path, fields, expected):
        path = tmp_path / "c.jsonl"
        path.write_text(json.dumps({"query": "q", "retrieved_text": "r", **fields}))
        (line,) = ContextFile(str(path))
        assert line.contexts == [Context("q", text, "r") for text in expected]

    def test_lines_of_one_query_are_read_again_as_one_group(self, tmp_path):
        path = tmp_path / "c.jsonl"
        rows = [
            {"query": q, "expected_text": "e", "retrieved_text": r} for q, r in ("ax", "ay", "bz")
        ]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        path.write_text(text)
        groups = FoldedLines(ContextFile(str(path)))
        wanted = [QueryGroup("a", ["e"], ["x", "y"]), QueryGroup("b", ["e"], ["z"])]
        assert [*groups] == [*groups] == [groups[0], groups[1]] == wanted
        path.write_text(text * 2)
        with pytest.raises(FileError, match="was changed while it was read"):
            list(groups)


OK, ERROR = int(Status.OK), int(Status.ERROR)


def verdicts(*given: tuple[int, bool, float]) -> Verdicts:
    status, relevant, score = zip(*given, strict=True)
    failed = VerdictError(14, "TIMEOUT", "late", True)
    return Verdicts(
        relevant,
        score,
        status,
        [int(Source.COMPUTED)] * len(given),
        [0] * len(given),
        [0, len(given)],
        {index: failed for index, one in enumerate(status) if one == ERROR},
        JudgeIdentity("k", "p", {}, 0.5, "s", "f"),
    )


def line_of(n: int) -> Line:
    return Line(1, {}, [Context("q", str(index), "r") for index in range(n)])


class TestOfLines:
    @pytest.mark.parametrize(
        ("alternatives", "expected"),
        [
            ([(OK, False, 0.2), (OK, True, 0.9), (OK, True, 0.7)], (OK, True, 0.9)),
            ([(OK, False, 0.2), (OK, False, 0.4)], (OK, False, 0.4)),
            ([(ERROR, False, 0.0), (OK, True, 0.7)], (OK, True, 0.7)),
            ([(OK, False, 0.4), (ERROR, False, 0.0)], (ERROR, False, 0.0)),
            # By votes a higher score may be no majority.
            ([(OK, False, 0.9), (OK, True, 0.6)], (OK, True, 0.6)),
        ],
    )
    def test_the_best_of_a_line_stands_for_it(self, alternatives, expected):
        lines = [line_of(1), line_of(len(alternatives))]
        found = of_lines(lines, verdicts((OK, True, 1.0), *alternatives))
        assert len(found) == 2
        assert (found.status[1], found.relevant[1], found.score[1]) == expected
        assert (found[1].error is not None) == (expected[0] == ERROR)

    @given(
        st.lists(
            st.lists(
                st.tuples(st.sampled_from([OK, ERROR]), st.booleans(), st.floats(0, 1)),
                min_size=1,
                max_size=4,
            ),
            min_size=1,
            max_size=6,
        )
    )
    def test_no_alternative_can_make_a_line_worse(self, items):
        flat = [one for item in items for one in item]
        found = of_lines([line_of(len(item)) for item in items], verdicts(*flat))
        for index, item in enumerate(items):
            judged = [(relevant, score) for status, relevant, score in item if status == OK]
            relevant = any(one for one, _ in judged)
            is_ok = found.status[index] == OK
            assert is_ok == (relevant or len(judged) == len(item))
            if is_ok:
                assert found.relevant[index] == relevant
                assert found.score[index] == max(s for r, s in judged if r == relevant)


def place(field, places):
    """What a field is known as."""
    return explain(InvalidArgument.of_field(field, "rule"), places).removesuffix(": rule")


class TestPlaces:
    def test_counts_alternatives_with_their_line(self):
        lines = [
            Line(3, {}, [Context("q", "a", "r"), Context("q", "b", "r")]),
            Line(4, {}, [Context("p", "a", "r")]),
        ]
        places = FoldedLines(lines).places("f")
        assert place("groups[0].expected[1]", places) == "f:3: 'expected_text'"
        assert place("groups[1].retrieved[0]", places) == "f:4: 'retrieved_text'"


class TestReadAnswers:
    def read(self, folder, text):
        path = folder / "a.jsonl"
        path.write_text(text)
        return read_answers(str(path))

    def test_an_answer_without_an_id_goes_by_its_line(self, tmp_path):
        file = self.read(
            tmp_path,
            '\n{"query": "q", "answer": ""}\n'
            '{"id": 7, "query": "", "answer": "a", "references": ["r"], "contexts": ["c"]}\n',
        )
        assert file.items == [
            AnswerItem("2", "q", ""),
            AnswerItem("7", "", "a", ["r"], ["c"]),
        ]
        where = f"{tmp_path / 'a.jsonl'}:3: 'contexts[0]'"
        assert place("items[1].contexts[0]", file.places()) == where

    def test_a_line_number_may_be_the_id_of_another(self, tmp_path):
        with pytest.raises(FileError, match=r":2: item '2' was on line 1 already"):
            self.read(tmp_path, '{"id": 2, "query": "", "answer": ""}\n{"query": "", "answer": ""}')
