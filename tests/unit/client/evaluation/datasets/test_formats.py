"""A data set through every format and back: what the format holds is kept, the rest is told."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judged import Span
from judged.evaluation import Dataset, Document, FileError, Query, Results, Retrieved

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
SHOWN = TEXTS.filter(lambda text: text.strip())
IDS = st.text("abc123,._-é\"'", min_size=1, max_size=6)
SPANS = st.builds(
    lambda file, start, n: Span(file, start, start + n), SHOWN, st.integers(0, 999), st.integers(1)
).filter(lambda span: span.end < 2**63)
UNIQUE = {"unique": True, "max_size": 3}


@st.composite
def datasets(draw) -> Dataset:
    ids = draw(st.lists(IDS, min_size=1, max_size=4, unique=True))
    names = draw(st.lists(IDS, **UNIQUE))
    grades = st.dictionaries(IDS, st.integers(-2, 4), max_size=3)
    known = [
        draw(st.tuples(st.lists(IDS, **UNIQUE), st.just({})) | st.tuples(st.just([]), grades))
        for _ in ids
    ]
    queries = [
        Query(
            query_id,
            draw(TEXTS),
            draw(st.lists(SHOWN, **UNIQUE)),
            relevant,
            tuple(draw(st.lists(SPANS, **UNIQUE))),
            tuple(draw(st.lists(SHOWN, **UNIQUE))),
            draw(st.dictionaries(st.sampled_from(["topic", "kind", "a b"]), SHOWN)),
            graded,
        )
        for query_id, (relevant, graded) in zip(ids, known, strict=True)
    ]
    documents = {name: Document(name, draw(TEXTS), {"page": 3}) for name in names}
    return Dataset(queries, documents)


TABLE = (
    "text expected_answers relevant_document_ids grades expected_spans negative_answers metadata"
)
HELD = {
    **dict.fromkeys(("csv", "tsv"), TABLE),
    **dict.fromkeys(("json", "jsonl"), f"{TABLE} documents"),
    "trec": "relevant_document_ids grades",
}
EMPTY = Query("q", "")


def kept(dataset: Dataset, name: str) -> Dataset:
    """Return what a format holds of a data set."""
    bare = {f: getattr(EMPTY, f) for f in TABLE.split() if f not in HELD[name].split()}
    queries = [replace(query, **bare) for query in dataset.queries]
    if name == "trec":
        queries = [query for query in queries if query.by_id]
    return Dataset(queries, dataset.documents if "documents" in HELD[name] else {})


@pytest.mark.parametrize("name", HELD)
@settings(max_examples=40, deadline=None)
@given(dataset=datasets())
def test_what_a_format_holds_comes_back_and_the_rest_is_told(name, tmp_path_factory, dataset):
    path = tmp_path_factory.mktemp(name) / "set"
    wanted = kept(dataset, name)
    lost = dataset.save(path, name)
    if not wanted.queries:
        return
    again = Dataset.load(path, name)
    assert plain(again) == plain(wanted)
    nothing_lost = plain(wanted) == plain(dataset)
    assert nothing_lost == (not lost), lost


def plain(dataset: Dataset) -> object:
    def listed(query: Query) -> Query:
        names = ("expected_answers", "relevant_document_ids", "expected_spans", "negative_answers")
        return replace(query, **{name: list(getattr(query, name)) for name in names})

    return [listed(query) for query in dataset.queries], dict(dataset.documents)


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(
        IDS,
        st.lists(
            st.builds(Retrieved, IDS, st.floats(allow_nan=False, allow_infinity=False), SHOWN),
            max_size=3,
        ),
        min_size=1,
    )
)
def test_results_come_back(tmp_path_factory, by_query):
    folder = tmp_path_factory.mktemp("results")
    results = Results.of(by_query)
    results.save(folder / "r.jsonl")
    assert Results.from_jsonl(folder / "r.jsonl").by_query == results.by_query


@pytest.mark.parametrize("divider", [",", ";", "\t", "|"])
def test_a_table_is_divided_by_what_its_header_has_most_of(tmp_path, divider: str):
    header, row = ("query", "expected_answers", "topic"), ("who?", "a", "x")
    text = "".join(divider.join(cells) + "\n" for cells in (header, row))
    (tmp_path / "a.csv").write_text(text)
    (query,) = Dataset.from_csv(tmp_path / "a.csv").queries
    assert (query.text, query.expected_answers, query.metadata) == ("who?", ["a"], {"topic": "x"})


def test_a_query_of_a_table_may_have_an_empty_text_and_a_row_of_empty_cells_is_none(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("query_text,query,expected_doc_ids\n,,d1\n,a,d2\n")
    assert [query.text for query in Dataset.from_csv(path).queries] == ["", "a"]
    path.write_text("query,expected_answers\na,b\n,\n")
    with pytest.raises(FileError, match=":3: has no 'query_text' or 'query'"):
        Dataset.from_csv(path)


@pytest.mark.parametrize(
    ("fields", "relevant", "grades"),
    [
        ({"doc_grades": {"a": 1}}, ["a"], {}),
        ({"doc_grades": {"a": 2, "b": 0}}, ["a"], {"a": 2, "b": 0}),
        ({"doc_grades": {"a": 2}, "expected_doc_ids": ["a", "b"]}, ["a", "b"], {"a": 2, "b": 1}),
        ({"doc_grades": {"a": 0}}, [], {"a": 0}),
        ({"doc_grades": {}, "expected_doc_ids": ["a"]}, ["a"], {}),
    ],
)
def test_grades_of_a_file_say_which_documents_are_relevant(tmp_path, fields, relevant, grades):
    query = {"query_id": "1", "query_text": "q", **fields}
    (tmp_path / "set.json").write_text(json.dumps({"queries": [query]}))
    (found,) = Dataset.load(tmp_path / "set.json").queries
    assert (list(found.relevant_document_ids), found.grades) == (relevant, grades)


@pytest.mark.parametrize("grades", [[1], {"a": "2"}, {"a": 1.5}, {"a": None}, {"a": True}, "a:2"])
def test_grades_that_are_none_are_refused_with_their_place(tmp_path, grades):
    query = {"query_id": "1", "query_text": "q", "doc_grades": grades}
    (tmp_path / "set.jsonl").write_text(json.dumps(query))
    with pytest.raises(FileError, match=r"set\.jsonl:1: .*doc_grades"):
        Dataset.load(tmp_path / "set.jsonl")


def test_a_beir_folder_joins_title_and_text_and_reads_the_queries_of_a_split(tmp_path):
    (tmp_path / "qrels").mkdir()
    (tmp_path / "corpus.jsonl").write_text('{"_id": "d1", "title": "T", "text": "body"}\n')
    (tmp_path / "queries.jsonl").write_text(
        '{"_id": "1", "text": "one"}\n{"_id": "2", "text": "two"}\n'
    )
    for split, line in (("test", "1\td1\t2\n1\td2\t0\n"), ("dev", "2\td1\t1\n")):
        text = "query-id\tcorpus-id\tscore\n" + line
        (tmp_path / "qrels" / f"{split}.tsv").write_text(text)
    assert Dataset.load(tmp_path) == Dataset(
        [Query("1", "one", grades={"d1": 2, "d2": 0})], {"d1": Document("d1", "T\nbody")}
    )
    assert Dataset.from_beir(tmp_path, "dev").queries[0].query_id == "2"


def test_samples_of_ragas_are_queries_and_neither_they_nor_beir_are_written(tmp_path):
    sample = {"user_input": "a", "reference": "b", "reference_context_ids": [7]}
    sample["reference_contexts"] = [" "]
    (tmp_path / "s").write_text(json.dumps(sample))
    dataset = Dataset.load(tmp_path / "s", "ragas")
    assert plain(dataset) == plain(Dataset([Query("q1", "a", ["b", " ", "b"], ["7"])]))
    assert dataset.queries[0].expected_answers == ["b"]
    sample = {"question": "a", "ground_truth": "b", "answer": "c", "contexts": ["d"]}
    (tmp_path / "s").write_text(json.dumps(sample))
    assert plain(Dataset.load(tmp_path / "s", "ragas")) == plain(Dataset([Query("q1", "a", ["b"])]))
    for name in ("ragas", "beir"):
        with pytest.raises(FileError, match=f"{name} is only read; write one of json, jsonl, csv"):
            dataset.save(tmp_path / "x", name)


@pytest.mark.parametrize("grade", ["2147483648", "-9999999999", "9999999999", "--1", "9" * 5000])
def test_a_grade_of_beir_that_is_no_number_has_its_line(tmp_path, grade: str):
    (tmp_path / "qrels").mkdir()
    text = f"query-id\tcorpus-id\tscore\n1\td1\t-1\n1\td1\t{grade}\n"
    (tmp_path / "qrels" / "test.tsv").write_text(text)
    with pytest.raises(FileError, match=r"test\.tsv:3: is not query-id, corpus-id and a whole"):
        Dataset.load(tmp_path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty"),
        ("query,expected_answers\nwho,a,b\n", "a.csv:2: has 3 cells, and the header has 2"),
        ("query_id,query\n1,a\n1,b\n", "a.csv:3: has the query_id '1' of an earlier query"),
    ],
)
def test_faults_of_tables_have_their_lines(tmp_path, text, problem):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(FileError) as caught:
        Dataset.from_csv(tmp_path / "a.csv")
    assert problem in str(caught.value)
