"""What is wrong, or may be, with the file of a data set: all of it, with places and what to do."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from judged._files import FileError, FileWarning
from judged.evaluation.datasets.formats import read_content
from judged.evaluation.datasets.query import EXPECTATIONS, Content, Query

_NEARLY_NAMED = 0.5
"""How alike a column's name is, by difflib, to that of one in which nothing was found."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing about a data set. An error keeps it from being read, a remark does not."""

    text: str
    is_error: bool


def validate(path: Path | str, format_name: str | None = None) -> tuple[Content, list[Finding]]:
    """Return what could be read of a data set, and all findings. Raises FileError for no data set.

    Errors come first, in the order of the file.
    """
    problems: list[FileError] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FileWarning)
        content = read_content(path, format_name, problems)
    findings = [Finding(str(problem), is_error=True) for problem in problems]
    findings += [
        Finding(str(warning.message), is_error=False)
        for warning in caught
        if issubclass(warning.category, FileWarning)
    ]
    findings += [Finding(text, is_error=False) for text in content.left_out.values()]
    if not content.queries and not problems:
        findings.append(Finding(f"{path}: has no query", is_error=True))
    findings += [Finding(text, is_error=False) for text in _remarks(content)]
    return content, findings


def _remarks(content: Content) -> Iterator[str]:
    queries = list(content.queries.values())
    for query in queries:
        place = content.places.get(query.query_id, "")
        if not query.text.strip():
            yield f"{place}: query {query.query_id!r} has no text; only matching by id can use it"
        if not (query.expected_answers or query.by_id or query.expected_spans):
            near = [
                n for n in query.metadata if get_close_matches(n, EXPECTATIONS, 1, _NEARLY_NAMED)
            ]
            hint = f"; is that what is called {near[0]!r} here?" if near else ""
            yield (
                f"{place}: query {query.query_id!r} expects nothing and is left out of every "
                f"metric; give it expected_answers, expected_doc_ids or expected_spans{hint}"
            )
        both = set(query.expected_answers) & set(query.negative_answers)
        if both:
            yield (
                f"{place}: query {query.query_id!r} has an answer that is expected and negative at "
                "once; remove one of them"
            )
        unknown = [name for name in query.relevant_document_ids if name not in content.documents]
        if content.documents and unknown:
            yield (
                f"{place}: query {query.query_id!r} expects document {unknown[0]!r}, which is not "
                "among the documents; add it, or correct the id"
            )
    for document in content.documents.values():
        if not document.text.strip():
            yield f"document {document.doc_id!r} has an empty text; give it one, or remove it"
    asked: dict[frozenset[str], Query] = {}
    for query in queries:
        words = frozenset(re.findall(r"\w+", query.text.casefold()))
        first = asked.setdefault(words, query)
        if words and first is not query:
            place = content.places.get(query.query_id, "")
            yield (
                f"{place}: query {query.query_id!r} has the words of query "
                f"{first.query_id!r}; one question twice weighs double"
            )
