"""Data sets of TREC qrels: topics and relevant documents by id, without any text."""

from __future__ import annotations

from pathlib import Path

from judged._writing import replace_text
from judged.evaluation.datasets.files import FileError, Record
from judged.evaluation.datasets.formats.content import Content, Saved, lost
from judged.evaluation.datasets.query import Query
from judged.evaluation.datasets.trec import TrecQrels


def read_qrels(path: Path | str, content: Content) -> None:
    """Read `topic 0 document grade`; grades above 0 are relevant. Raises FileError."""
    for topic, grades in TrecQrels.from_file(path).grades.items():
        relevant = [document for document, grade in grades.items() if grade > 0]
        content.add(Record({}, str(path), None, ""), Query(topic, "", (), relevant))


def write_qrels(path: Path | str, dataset: Saved) -> list[str]:
    """Write a line for each relevant id, with the grade 1; return what is lost."""
    lines = []
    for query in dataset.queries:
        for name in (query.query_id, *query.relevant_document_ids):
            if not name or name.split() != [name]:
                problem = f"can't hold the id {name!r}: TREC's columns end at white space"
                raise FileError(str(path), None, problem)
        lines += [f"{query.query_id} 0 {name} 1\n" for name in query.relevant_document_ids]
    replace_text(path, "".join(lines))
    told = lost(dataset, "TREC qrels", ("relevant_document_ids",))
    if any(query.text for query in dataset.queries):
        told.append("TREC qrels can't hold the texts of queries")
    if n := sum(not query.relevant_document_ids for query in dataset.queries):
        told.append(f"{n} queries without relevant document ids are not in TREC qrels")
    return told
