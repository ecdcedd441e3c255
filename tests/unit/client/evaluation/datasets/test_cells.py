"""Lists in the cells of tables, as JSON has them; other notations; and headers."""

from __future__ import annotations

import csv
import io
import json

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged import QueryGroup
from judged._batching.judging import fold
from judged._files import FileWarning
from judged.errors import WrongType
from judged.evaluation import Dataset, FileError
from judged.evaluation.datasets.dataset import validate

TWO = ["kb-1", "kb-2"]
CALLS = [
    "frozenset({'kb-1', 'kb-2'})",
    "array(['kb-1', 'kb-2'], dtype=object)",
    "np.array(['kb-1', 'kb-2'], dtype='<U4')",
    "[np.str_('kb-1'), np.str_('kb-2')]",
    "Index(['kb-1', 'kb-2'], dtype='object')",
    "dict_keys(['kb-1', 'kb-2'])",
    "deque(['kb-1', 'kb-2'])",
    "tensor(['kb-1', 'kb-2'])",
    "OrderedSet(['kb-1', 'kb-2'])",
]
NO_IDS = [
    *CALLS,
    "kb-1|kb-2",
    "kb-1; kb-2",
    "kb-1،kb-2",
    "kb-1؛kb-2",
    "kb-1 kb-2",
    "kb-1\tkb-2",
    "kb-1|kb-2, kb-3",
    "[kb-1, kb-2]",
    "['kb-1', 'kb-2']",
    "['kb-1', 'kb-2'",
    "'kb-1', 'kb-2'",
    "('kb-1'",
    "{kb-1,kb-2}",
    "{'kb-1', 'kb-2'}",
    "['kb-1' 'kb-2']",
    '[["kb-1"], ["kb-2"]]',
    "kb-1]",
    '["kb-1", NaN]',
    "[1.0, 2.0]",
    "{'kb-1': 1}",
    'kb"1',
    'c("kb-1", "kb-2")',
    "kb-1\nkb-2",
    "- kb-1\n- kb-2",
    "<StringArray>\n['kb-1', 'kb-2']",
    r"['C:\docs']",
]
NO_ANSWERS = [
    *CALLS,
    "[kb-1, kb-2]",
    "['kb-1', 'kb-2']",
    "('kb-1', 'kb-2'",
    "{'kb-1', 'kb-2'}",
    '[["kb-1"], ["kb-2"]]',
    '["kb-1", null]',
    '["kb-1", "kb-2"',
    "array([1, 2])",
    "<ArrowStringArray>\n['kb-1', 'kb-2']\nLength: 2, dtype: str",
]
ONE_ANSWER = [
    "yes, no, perhaps",
    "[1] says so",
    "(see above)",
    "(a) first, (b) second",
    '("quoted")',
    "{'a': 1}",
    '{"a": true}',
    "{not: json}",
    '"To be", or not to be',
    "f(['a', 'b'])",
    "kb-1|kb-2",
    "'tis",
    "[Menu], then Invoices",
]


def table(tmp_path, column: str, cell: str, divider: str = ",") -> Dataset:
    text = io.StringIO()
    csv.writer(text, delimiter=divider).writerows(
        [["query_id", "query_text", column], ["q1", "who", cell]]
    )
    path = tmp_path / ("a.csv" if divider == "," else "a.tsv")
    path.write_bytes(text.getvalue().encode())
    return Dataset.load(path)


def rows(tmp_path, column: str, cell: str) -> Dataset:
    del tmp_path
    return Dataset.from_rows([{"query_id": "q1", "query_text": "who", column: cell}])


def tabs(tmp_path, column: str, cell: str) -> Dataset:
    return table(tmp_path, column, cell, "\t")


READERS = [table, tabs, rows]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("expected_doc_ids", '["kb-1", "kb-2"]'),
        ("relevant_doc_ids", "kb-1, kb-2"),
        ("relevant_docs", " kb-1,kb-2, "),
        ("expected_answers", '["kb-1", "kb-2"]'),
        ("expected_alternatives", ' [ "kb-1",\n"kb-2"]'),
        ("negative_answers", '["kb-1", "kb-2"]'),
    ],
)
def test_lists_are_json_and_ids_may_have_commas_between_them(tmp_path, read, column, cell):
    (query,) = read(tmp_path, column, cell).queries
    held = query.relevant_document_ids, query.expected_answers, query.negative_answers
    assert [list(values) for values in held if values] == [["kb-1", "kb-2"]]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("cell", NO_IDS)
def test_no_cell_like_a_list_is_an_id(tmp_path, read, cell: str):
    with pytest.raises(FileError, match=r"(a|rows).*:\d: has 'expected_doc_ids' ") as caught:
        read(tmp_path, "expected_doc_ids", cell)
    assert "JSON" in str(caught.value) or "neither text" in str(caught.value)


@pytest.mark.parametrize("read", [Dataset.from_rows, Dataset.load])
def test_fields_of_several_names_are_all_read(tmp_path, read):
    row = {
        "query_text": "who",
        "query_id": "q1",
        "expected_answers": ["a"],
        "expected_text": "b",
        "expected_alternatives": ["c", "a"],
        "expected_doc_ids": ["d1"],
        "relevant_docs": ["d2", "d1"],
    }
    (tmp_path / "a.jsonl").write_text(json.dumps(row))
    (query,) = read([row] if read == Dataset.from_rows else tmp_path / "a.jsonl").queries
    assert query.expected_answers == ["a", "b", "c"]
    assert query.relevant_document_ids == ["d1", "d2"]


@pytest.mark.parametrize("column", ["expected_answers", "expected_text"])
@pytest.mark.parametrize("cell", NO_ANSWERS)
def test_no_cell_like_a_list_is_one_answer(tmp_path, cell: str, column: str):
    with pytest.raises(FileError, match=f"a.csv:2: has '{column}.*' ") as caught:
        table(tmp_path, column, cell)
    assert "kb-" not in str(caught.value)


@pytest.mark.parametrize("cell", ONE_ANSWER)
def test_other_cells_are_one_answer(tmp_path, cell: str):
    for column in ("expected_answers", "expected_text"):
        assert table(tmp_path, column, cell).queries[0].expected_answers == [cell]


@pytest.mark.parametrize("cell", ["300", "Paris_(France)", "O'Neil.pdf", "a/b.md, d.md", "gz"])
def test_plain_ids_stay_as_they_are(tmp_path, cell: str):
    (query,) = table(tmp_path, "relevant_docs", cell).queries
    assert query.relevant_document_ids == [part.strip() for part in cell.split(",")]


def test_a_list_of_json_has_ids_of_any_form(tmp_path):
    (query,) = table(tmp_path, "relevant_docs", """["(500) Days", "a|b", "['x']"]""").queries
    assert query.relevant_document_ids == ["(500) Days", "a|b", "['x']"]


@pytest.mark.parametrize("read", READERS)
def test_spans_and_metadata_are_json(tmp_path, read):
    (query,) = read(tmp_path, "expected_spans", '[{"file": "a.md", "start": 0, "end": 5}]').queries
    assert query.expected_spans[0].end == 5
    (query,) = read(tmp_path, "metadata", '{"topic": "billing", "old": true}').queries
    assert dict(query.metadata) == {"topic": "billing", "old": "true"}
    for column, cell in (
        ("expected_spans", "a.md:0-5"),
        ("expected_spans", '{"file": "a.md", "start": 0, "end": 5}'),
        ("metadata", "billing"),
        ("metadata", "{'topic': 'billing'}"),
    ):
        with pytest.raises(FileError, match=f"{column}.*is not .*JSON"):
            read(tmp_path, column, cell)


def test_rows_may_hold_tuples_and_sets():
    row = {"query": "who", "relevant_docs": ("a", "b"), "expected_answers": {"one"}}
    (query,) = Dataset.from_rows([row]).queries
    assert (query.relevant_document_ids, query.expected_answers) == (["a", "b"], ["one"])
    with pytest.raises(FileError, match="rows:1: is no mapping of columns; pass frame"):
        Dataset.from_rows(pd.DataFrame([row]))
    with pytest.raises(WrongType, match=r"groups\[0\].retrieved: must be a list, not DataFrame"):
        fold([QueryGroup("q", ["e"], pd.DataFrame())])


@pytest.mark.parametrize(
    ("header", "told"),
    [
        (
            "query_text,Expected Answers,expected_answers",
            "the header has 'expected_answers' twice",
        ),
        ("A;b,Question,y", "names 'A;b', 'Question', 'y', but has no 'query_text' or 'query'"),
    ],
)
def test_a_header_that_can_not_be_read_is_told_once(tmp_path, header: str, told: str):
    (tmp_path / "a.csv").write_text(f"{header}\na,b,c\nd,e,f\ng,h,i\n")
    content, findings = validate(tmp_path / "a.csv")
    assert not content.queries
    (finding,) = findings
    assert finding.is_error
    assert "a.csv:1: " in finding.text
    assert told in finding.text
    with pytest.raises(FileError) as caught:
        Dataset.load(tmp_path / "a.csv")
    assert str(caught.value) == finding.text


@pytest.mark.parametrize(
    "write", [str.upper, str.title, "  {} ".format, lambda n: n.replace("_", " ")]
)
def test_names_that_differ_by_case_or_space_alone_are_taken(tmp_path, write):
    names = ["query_id", "query_text", "expected_answers", "relevant_docs", "expected_spans"]
    cells = ["7", "who", "me", "", ""]
    path = tmp_path / "a.csv"
    path.write_text(",".join(map(write, names)) + "\n" + ",".join(cells) + "\n")
    (query,) = Dataset.load(path).queries
    assert (query.query_id, query.text, query.expected_answers) == ("7", "who", ["me"])
    (query,) = Dataset.from_rows([dict(zip(map(write, names), cells, strict=True))]).queries
    assert (query.query_id, query.text, query.expected_answers) == ("7", "who", ["me"])


def test_a_column_without_a_name_is_left_out_as_are_the_numbers_that_pandas_gives_rows(tmp_path):
    frame = pd.DataFrame({"query": ["who", "what"], "relevant_docs": ["a, b", "c"]})
    frame.to_csv(tmp_path / "a.csv")
    content, findings = validate(tmp_path / "a.csv")
    assert findings == []
    assert [list(q.relevant_document_ids) for q in content.queries.values()] == [["a", "b"], ["c"]]
    assert all(not query.metadata for query in content.queries.values())


def test_a_misspelt_column_is_told_and_one_of_metadata_is_not(tmp_path):
    header = "query_id,query_text,query_type,uid,expected_answers,negative_answer,Doc Grade"
    rows = f"{header},expected_answers.1\nq1,who,short,7,me,you,{{}},him\n"
    (tmp_path / "a.csv").write_text(rows)
    _, findings = validate(tmp_path / "a.csv")
    assert [finding.text.partition("a.csv:")[2] for finding in findings] == [
        "1: has 'negative_answer', which is no known field; did you mean 'negative_answers'?",
        "1: has 'Doc Grade', which is no known field; did you mean 'doc_grades'?",
        "1: has 'expected_answers.1', which is no known field; did you mean 'expected_answers'?",
    ]
    with pytest.warns(FileWarning, match="rows: 'expected_answers' has 'nan', as str.. writes an"):
        Dataset.from_rows([{"query": "who", "expected_answers": "nan"}] * 2)
    with pytest.warns(FileWarning, match="did you mean 'expected_answers'"):
        Dataset.from_rows([{"query": "who", "expected_anwsers": "me"}] * 2)


FORMULAS = st.text(st.sampled_from("=+-@'\t\r\n ab1"), max_size=4)


@given(FORMULAS, FORMULAS)
def test_a_table_with_formulas_comes_back(tmp_path_factory, query_id: str, text: str):
    path = tmp_path_factory.mktemp("formulas") / "a.csv"
    dataset = Dataset.from_rows([{"query_id": query_id or "q", "query_text": text or "x"}])
    dataset.save(path)
    assert Dataset.load(path) == dataset
    with path.open(newline="") as file:
        cells = [cell for row in list(csv.reader(file))[1:] for cell in row if cell]
    assert all(cell[0] not in "=+-@\t\r" for cell in cells)


def test_cells_of_a_column_without_a_name_are_left_out_and_told(tmp_path):
    (tmp_path / "a.csv").write_text(",query,expected_answers,\n0,who,me,\nx,what,this,\n")
    content, findings = validate(tmp_path / "a.csv")
    assert [dict(query.metadata) for query in content.queries.values()] == [{}, {}]
    (finding,) = findings
    assert "a.csv:3: has a cell in a column without a name" in finding.text


def test_a_header_shorter_than_every_row_is_told_once(tmp_path):
    (tmp_path / "a.csv").write_text("query,topic\na,b,c\nd,e,f\n")
    _, findings = validate(tmp_path / "a.csv")
    assert [finding.text.partition(".csv")[2] for finding in findings] == [
        ":1: names 2 columns, and the rows have 3 cells; name each of them"
    ]
