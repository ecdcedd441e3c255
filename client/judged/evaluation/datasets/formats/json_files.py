"""Data sets in JSON, in Evret's layout, and in JSONL, a query or a document a line."""

from __future__ import annotations

import json
from pathlib import Path

from judged._writing import replace_text, replacing_text
from judged.evaluation.datasets.files import (
    FileError,
    KnownFields,
    Record,
    parse_json,
    read_bytes,
    read_records,
)
from judged.evaluation.datasets.formats.content import Content, Saved, json_line
from judged.evaluation.datasets.query import (
    DOCUMENT_FIELDS,
    QUERY_FIELDS,
    write_document,
    write_query,
)

SHAPE = 'a data set is {"queries": [{"query_id", "query_text", "expected_answers"}, ...]}'


def read_json(path: Path | str, content: Content) -> None:
    """Read a file of one object with "queries" and "documents". Raises FileError."""
    name = str(path)
    raw = read_bytes(path)
    if not raw.strip():
        raise Record({}, name, None, "").error(f"is empty; {SHAPE}")
    try:
        root = Record(parse_json(raw, name, None), name, None, "")
    except FileError as error:
        hint = (
            "; `judged convert` writes JSON from other formats"
            if "looks like" in str(error)
            else ""
        )
        raise FileError(name, error.line, f"{error.problem}{hint}") from None
    if root.get("queries") is None:
        raise root.error(f'has no "queries"; {SHAPE}')
    KnownFields("queries", "documents").check(root)
    known, inner = KnownFields(*QUERY_FIELDS), KnownFields(*DOCUMENT_FIELDS)
    for index, value in enumerate(root.items("queries")):
        content.take_query(record := Record(value, name, None, f"queries[{index}]"))
        known.check(record)
    for index, value in enumerate(root.items("documents")):
        content.take_document(record := Record(value, name, None, f"documents[{index}]"))
        inner.check(record)
    if not (content.queries or content.problems):
        content.refuse(root.error(f"has no query; {SHAPE}"))


def write_json(path: Path | str, dataset: Saved) -> list[str]:
    """Write all of a data set; return what is lost: nothing."""
    document: dict[str, object] = {"queries": [write_query(query) for query in dataset.queries]}
    if dataset.all_documents:
        document["documents"] = [write_document(d) for d in dataset.all_documents]
    text = json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False)
    replace_text(path, text + "\n")
    return []


def read_jsonl(path: Path | str, content: Content) -> None:
    """Read a file of a query or a document a line: a line with a doc_id is a document."""
    known, inner = KnownFields(*QUERY_FIELDS), KnownFields("doc_id", "text", "metadata")
    for _, record in read_records(path):
        if record.get("doc_id") is not None and record.get("query_text", "query") is None:
            content.take_document(record)
            inner.check(record)
        else:
            content.take_query(record)
            known.check(record)


def write_jsonl(path: Path | str, dataset: Saved) -> list[str]:
    """Write all of a data set; return what is lost: nothing."""
    lines = [write_query(query) for query in dataset.queries]
    lines += [write_document(document) for document in dataset.all_documents]
    with replacing_text(path) as file:
        file.writelines(map(json_line, lines))
    return []
