"""What `validate` finds is what stands in the way of a load, in every format."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
from judged.evaluation import Dataset, FileError, TrecQrels
from judged.evaluation.datasets.dataset import validate

QUERY = {"query_id": "1", "query_text": "a", "expected_answers": ["b"]}
DOCUMENT = {"doc_id": "d1", "text": "alpha"}


def lines(*values: object) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


def whole(*queries: object, documents: tuple[object, ...] = ()) -> str:
    return json.dumps({"queries": queries, "documents": documents})


BEIR = {
    "queries.jsonl": lines({"_id": "1", "text": "a"}, {"_id": "2", "text": "b"}),
    "corpus.jsonl": lines({"_id": "d1", "text": "alpha"}, {"_id": "d2", "text": "beta"}),
    "qrels/test.tsv": "query-id\tcorpus-id\tscore\n1\td1\t1\n",
}
HEADER = "query-id\tcorpus-id\tscore\n"


SETS: dict[str, str | dict[str, str]] = {
    "good.json": whole(QUERY),
    "no_query.json": whole(),
    "twice.json": whole(QUERY, QUERY),
    "half.json": whole(QUERY, {"query_id": "2"}),
    "documents.json": whole(QUERY, documents=(DOCUMENT, DOCUMENT)),
    "good.jsonl": lines(QUERY, DOCUMENT),
    "twice.jsonl": lines(QUERY, QUERY),
    "no_query.jsonl": lines(DOCUMENT),
    "cut.jsonl": lines(QUERY) + '{"query_id": "2", ',
    "good.csv": "query,expected_answers\na,b\n",
    "list.csv": "query,relevant_docs\na,['d1'\n",
    "short.csv": "query,topic\na\nb,c\n",
    "good.tsv": "query\texpected_answers\na\tb\n",
    "wrong.tsv": "query\texpected_spans\na\tb\n",
    "good.qrels": "1 0 d1 1\n",
    "twice.qrels": "1 0 d1 1\n1 0 d1 1\n",
    "other.qrels": "1 0 d1 1\n1 0 d1 0\n",
    "good": BEIR,
    "wrong.ragas": lines({"user_input": "a", "reference_contexts": "b"}),
}
SETS["missing"] = {**BEIR, "qrels/test.tsv": f"{HEADER}1\td1\t1\n9\td1\t1\n"}
SETS["alike"] = {**BEIR, "qrels/test.tsv": f"{HEADER}1\td1\t1\n1\td1\t1\n"}
SETS["other"] = {**BEIR, "qrels/test.tsv": f"{HEADER}1\td1\t1\n1\td1\t0\n"}
SETS["documents"] = {**BEIR, "corpus.jsonl": BEIR["corpus.jsonl"] * 2}
SETS["queries"] = {**BEIR, "queries.jsonl": BEIR["queries.jsonl"] * 2}
SETS["no_text"] = {**BEIR, "queries.jsonl": lines({"_id": "1"})}
SETS["latin"] = {**BEIR, "qrels/test.tsv": f"{HEADER}1\td\udce9\t1\n"}
GOOD = {"good", "alike", "twice.qrels", *(name for name in SETS if name.startswith("good."))}


def write(folder: Path, name: str) -> Path:
    held = SETS[name]
    for inner, text in ({"": held} if isinstance(held, str) else held).items():
        path = folder / name / inner if inner else folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode(errors="surrogateescape"))
    return folder / name


@pytest.mark.parametrize("name", SETS)
def test_what_validate_passes_load_takes_and_nothing_else(tmp_path, name: str):
    path, of = write(tmp_path, name), "ragas" if name.endswith(".ragas") else None
    errors: list[str] = []
    remarks: list[str] = []
    try:
        for finding in validate(path, of)[1]:
            (errors if finding.is_error else remarks).append(finding.text)
    except FileError as error:
        errors.append(str(error))
    raised = None
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            Dataset.load(path, of)
        except FileError as error:
            raised = str(error)
    assert (raised is None) == (name in GOOD)
    assert raised == (errors[0] if errors else None)
    assert {str(warning.message) for warning in told} <= set(remarks)


def test_a_folder_of_beir_is_told_as_a_whole(tmp_path):
    SETS["all"] = {
        **BEIR,
        "corpus.jsonl": BEIR["corpus.jsonl"] + lines({"_id": "d2", "text": "another"}),
        "qrels/test.tsv": f"{HEADER}1\td1\t1\n1\td1\t1\n1\td2\t1\n1\td2\t0\n3\td1\t1\n4\td1\t1\n",
    }
    _, findings = validate(write(tmp_path, "all"))
    texts = [finding.text.partition("/all/")[2] for finding in findings]
    assert texts[:5] == [
        (
            "qrels/test.tsv:5: judges 'd2' for topic '1' as 0, and an earlier line as 1; keep one "
            "of them"
        ),
        "qrels/test.tsv: judges query '3', which queries.jsonl lacks",
        "qrels/test.tsv: judges query '4', which queries.jsonl lacks",
        "corpus.jsonl:3: has the id 'd2' of an earlier document",
        "qrels/test.tsv:3: repeats a judgement with the same grade, 1 in all; one counts",
    ]
    assert [finding.is_error for finding in findings[:5]] == [True, True, True, True, False]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "1 0 d1 1\n2 0 d1 0\n1 0 d1 2\n",
            ":3: judges 'd1' for topic '1' as 2, and an earlier line as 1",
        ),
        ("1 1 d1 1\n1 2 d1 0\n", "subtopics, these are qrels for alpha-nDCG"),
        ("1 1 d1 1\n1 2 d1 1\n", "subtopics, these are qrels for alpha-nDCG"),
    ],
)
def test_another_grade_of_a_judged_document_is_refused(tmp_path, text, told):
    (tmp_path / "a.qrels").write_text(text)
    with pytest.raises(FileError) as caught:
        TrecQrels.from_file(tmp_path / "a.qrels")
    assert told in str(caught.value)
