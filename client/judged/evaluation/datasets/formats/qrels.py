"""Data sets of TREC qrels: topics and relevant documents by id, without any text."""

from __future__ import annotations

from pathlib import Path

from judged._writing import replace_text
from judged.evaluation.datasets.files import Record
from judged.evaluation.datasets.formats.content import Content, Saved, lost
from judged.evaluation.datasets.query import Query
from judged.evaluation.datasets.trec import TrecQrels, check_trec_ids


def read_qrels(path: Path | str, content: Content) -> None:
    """Read `topic 0 document grade`; grades above 0 are relevant. Raises FileError."""
    for topic, grades in TrecQrels.from_file(path).grades.items():
        content.add(Record({}, str(path), None, ""), Query(topic, "", grades=grades))


def write_qrels(path: Path | str, dataset: Saved) -> list[str]:
    """Write a line for each document that was judged, with its grade; return what is lost."""
    lines = []
    for query in dataset.queries:
        check_trec_ids(path, [query.query_id, *query.judged_documents])
        lines += [f"{query.query_id} 0 {name} {g}\n" for name, g in query.judged_documents.items()]
    replace_text(path, "".join(lines))
    told = lost(dataset, "TREC qrels", ("relevant_document_ids", "grades"))
    if any(query.text for query in dataset.queries):
        told.append("TREC qrels can't hold the texts of queries")
    if n := sum(not query.by_id for query in dataset.queries):
        told.append(f"{n} queries without judged document ids are not in TREC qrels")
    return told
