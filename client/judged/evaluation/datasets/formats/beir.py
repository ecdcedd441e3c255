"""Data sets in folders of the BEIR benchmark: corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv.

Thakur et al., BEIR, 2021; https://github.com/beir-cellar/beir. Grades above 0 are relevant.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from judged._writing import replacing_text
from judged.evaluation.datasets.files import FileError, decode, read_lines, read_records
from judged.evaluation.datasets.formats.content import Content, Saved, json_line, lost
from judged.evaluation.datasets.query import Document, Query
from judged.evaluation.datasets.trec import Judgements, read_grade

_HELD = ("relevant_document_ids", "grades", "metadata", "documents")


def read_beir(path: Path | str, content: Content, *, split: str = "test") -> None:
    """Read a folder; of its queries, those that the split judges. Raises FileError."""
    folder = Path(path)
    qrels = folder / "qrels" / f"{split}.tsv"
    judged = _read_qrels(qrels, content)
    found: set[str] = set()
    for _, record in read_records(folder / "queries.jsonl"):
        try:
            query_id = record.identifier("_id")
            if query_id in judged:
                found.add(query_id)
                text, grades = record.text("text"), judged[query_id]
                query = Query(query_id, text, metadata=record.labels("metadata"), grades=grades)
                content.add(record, query)
        except FileError as error:
            content.refuse(error)
    for query_id in judged:
        if query_id not in found:
            problem = f"judges query {query_id!r}, which queries.jsonl lacks"
            content.refuse(FileError(str(qrels), None, problem))
    for _, record in read_records(folder / "corpus.jsonl"):
        try:
            title, text = record.optional_text("title"), record.text("text")
            metadata = dict(inner.fields) if (inner := record.record("metadata")) else {}
            # BEIR's own retrievers read title and text as one.
            whole = f"{title}\n{text}" if title else text
            content.add_document(record, Document(record.identifier("_id"), whole, metadata))
        except FileError as error:
            content.refuse(error)


def _read_qrels(path: Path, content: Content) -> Mapping[str, Mapping[str, int]]:
    judged = Judgements(str(path))
    for number, raw in read_lines(path):
        cells = decode(raw, str(path), number).rstrip("\r\n").split("\t")
        if number == 1 and cells[:1] == ["query-id"]:
            continue
        grade = read_grade(cells[2]) if len(cells) == 3 else None
        if grade is None:
            problem = "is not query-id, corpus-id and a whole score with tabs between them"
            raise FileError(str(path), number, problem)
        try:
            judged.add(number, cells[0], cells[1], grade)
        except FileError as error:
            content.refuse(error)
    judged.tell_repeats()
    return judged.grades


def write_beir(path: Path | str, dataset: Saved, *, split: str = "test") -> list[str]:
    """Write a folder; return what is lost. Raises FileError for ids that no line can hold."""
    folder = Path(path)
    # Made before any file is: an id that is refused leaves no half of a data set.
    judgements = _judgements(path, dataset)
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    with replacing_text(folder / "queries.jsonl") as file:
        for query in dataset.queries:
            line = {"_id": query.query_id, "text": query.text, "metadata": dict(query.metadata)}
            file.write(json_line(line))
    with replacing_text(folder / "corpus.jsonl") as file:
        for document in dataset.all_documents:
            line = {"_id": document.doc_id, "title": "", "text": document.text}
            line["metadata"] = dict(document.metadata)
            file.write(json_line(line))
    with replacing_text(folder / "qrels" / f"{split}.tsv", newline="") as file:
        file.writelines(judgements)
    told = lost(dataset, "BEIR", _HELD)
    if unjudged := sum(not query.by_id for query in dataset.queries):
        told.append(f"{unjudged} queries without judged document ids are in no split of BEIR")
    return told


def _judgements(path: Path | str, dataset: Saved) -> list[str]:
    """Return the lines of a split. Raises FileError for an id that would end its column or line."""
    lines = ["query-id\tcorpus-id\tscore\n"]
    for query in dataset.queries:
        for name, grade in query.judged_documents.items():
            for each in (query.query_id, name):
                if any(end in each for end in "\t\r\n"):
                    problem = f"BEIR can't hold the id {each!r}: its columns end at tabs"
                    raise FileError(str(path), None, f"{problem}, and its lines at CR and LF")
            # Nothing is quoted: BEIR's files have quotes as they are, and so they are read.
            lines.append(f"{query.query_id}\t{name}\t{grade}\n")
    return lines
