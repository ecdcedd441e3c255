"""Samples of Ragas: what `EvaluationDataset.to_jsonl` and `to_list` write.

A sample has the query and what was retrieved in one, so that it is a query and its results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from judged._writing import replacing_text
from judged.evaluation.datasets.files import Record, parse_json, read_bytes, read_records
from judged.evaluation.datasets.formats.content import Content, Saved, json_line, lost
from judged.evaluation.datasets.query import Query
from judged.evaluation.datasets.results import Retrieved

_HELD = ("expected_answers", "relevant_document_ids")


def read_ragas(path: Path | str, content: Content) -> dict[str, Sequence[Retrieved]]:
    """Read JSONL, or JSON with a list; return what was retrieved by query id. Raises FileError."""
    name = str(path)
    raw = read_bytes(path)
    if raw.lstrip()[:1] == b"[":
        whole = Record({"samples": parse_json(raw, name, None)}, name, None, "")
        return take_samples(whole.records("samples"), content)
    return take_samples((record for _, record in read_records(path)), content)


def take_samples(samples: Iterable[Record], content: Content) -> dict[str, Sequence[Retrieved]]:
    """Take samples as queries q1, q2, … and return what was retrieved by query id.

    The expected answers of one are its reference contexts, or its reference where it has none.
    """
    results: dict[str, Sequence[Retrieved]] = {}
    for index, sample in enumerate(samples):
        reference = sample.optional_text("reference")
        expected = sample.texts("reference_contexts") or ([reference] if reference else [])
        query_id = f"q{index + 1}"
        ids = sample.identifiers("reference_context_ids")
        content.add(sample, Query(query_id, sample.text("user_input"), expected, ids))
        texts = sample.texts("retrieved_contexts")
        found = sample.identifiers("retrieved_context_ids")
        if texts or found:
            n = max(len(texts), len(found))
            results[query_id] = [
                Retrieved(
                    found[rank] if rank < len(found) else None,
                    text=texts[rank] if rank < len(texts) else None,
                )
                for rank in range(n)
            ]
    return results


def write_ragas(
    path: Path | str, dataset: Saved, results: Mapping[str, Sequence[Retrieved]] | None = None
) -> list[str]:
    """Write a sample a query, with what was retrieved for it; return what is lost."""
    documents = {document.doc_id: document.text for document in dataset.all_documents}
    with replacing_text(path) as file:
        for query in dataset.queries:
            sample: dict[str, Any] = {"user_input": query.text}
            if query.expected_answers:
                sample["reference_contexts"] = list(query.expected_answers)
            if query.relevant_document_ids:
                sample["reference_context_ids"] = list(query.relevant_document_ids)
            if results is not None and query.query_id in results:
                ranked = results[query.query_id]
                sample["retrieved_contexts"] = [
                    result.text
                    if result.text is not None
                    else documents.get(result.doc_id or "", "")
                    for result in ranked
                ]
                if all(result.doc_id is not None for result in ranked):
                    sample["retrieved_context_ids"] = [result.doc_id for result in ranked]
            file.write(json_line(sample))
    told = lost(dataset, "Ragas", _HELD)
    numbered = [f"q{index + 1}" for index in range(len(dataset.queries))]
    if [query.query_id for query in dataset.queries] != numbered:
        told.append("Ragas has no ids of queries: read again, they are q1, q2, … in order")
    return told
