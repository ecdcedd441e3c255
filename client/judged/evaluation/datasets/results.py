"""What a retriever returned: one result, and the results of many queries from a file.

Joining them with what was expected is up to `dataset`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from judged._inputs import as_id, need_by_ids, need_each, need_id, need_text, set_fields
from judged._views import short_repr
from judged.evaluation.datasets.files import KnownFields, Record, parse_json, read_lines
from judged.types import Span


@dataclass(frozen=True, slots=True)
class Retrieved:
    """One retrieved document. Without an id it is known by its rank, without a text by its id.

    An id is text or a whole number, compared as text.
    """

    doc_id: str | None = None
    score: float | None = None
    text: str | None = None
    span: Span | None = None

    def __post_init__(self) -> None:
        if self.doc_id is not None and type(self.doc_id) is not str:
            set_fields(self, doc_id=need_id(self.doc_id, "doc_id"))
        if self.text is not None:
            need_text(self.text, "text")


@dataclass(frozen=True, slots=True, repr=False)
class Results(Mapping[str, Sequence[Retrieved]]):
    """The results of queries by query id, best rank first.

    `out_of_order` are the queries whose scores do not fall with rank. The given order is the
    ranking all the same; scores are only looked at to find such queries.
    """

    by_query: Mapping[str, Sequence[Retrieved]]
    out_of_order: Sequence[str] = ()

    def __post_init__(self) -> None:
        by_query = {
            query_id: need_results(ranked, f"results[{query_id!r}]")
            for query_id, ranked in need_by_ids(self.by_query, "results").items()
        }
        set_fields(self, by_query=by_query)

    def __repr__(self) -> str:
        return short_repr(self)

    def __getitem__(self, query_id: str) -> Sequence[Retrieved]:
        return self.by_query[as_id(query_id)]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_query)

    def __len__(self) -> int:
        return len(self.by_query)

    @classmethod
    def of(cls, by_query: Mapping[str, Sequence[Retrieved]]) -> Results:
        """Return results that were retrieved in this process."""
        if isinstance(by_query, cls):
            return by_query
        found = cls(by_query)
        return cls(found.by_query, [q for q, ranked in found.items() if not _falls(ranked)])

    @classmethod
    def from_jsonl(cls, path: Path | str) -> Results:
        """Return the results of a file. Raises FileError."""
        name = str(path)
        by_query: dict[str, Sequence[Retrieved]] = {}
        line_of: dict[str, int] = {}
        known = KnownFields("query_id", "id", "results")
        inner = KnownFields("doc_id", "id", "score", "text", "span")
        for number, raw in read_lines(path):
            line = Record(parse_json(raw, name, number), name, number, "")
            known.check(line)
            query_id = line.identifier("query_id", "id")
            if query_id in line_of:
                raise line.error(f"query {query_id!r} was on line {line_of[query_id]} already")
            if line.get("results") is None:
                raise line.error('has no "results"; write [] for a query that found nothing')
            line_of[query_id] = number
            by_query[query_id] = [
                _read(Record(value, name, number, f"results[{rank}]"), inner)
                for rank, value in enumerate(line.items("results"))
            ]
        return cls.of(by_query)


def need_results(ranked: object, field: str) -> Sequence[Retrieved]:
    """Return the results of a query, read once. Raises WrongType with the field and the place."""
    return need_each(ranked, field, (Retrieved,), "Retrieved(doc_id, score, text)")


def read_span(record: Record) -> Span:
    """Return a span of a file: characters from `start` up to, not including, `end`."""
    start, end = record.position("start"), record.position("end")
    if end <= start:
        raise record.error(f"has 'end' {end}, which is not above 'start' {start}")
    return Span(record.text("file"), start, end)


def _read(record: Record, known: KnownFields) -> Retrieved:
    known.check(record)
    span = record.record("span")
    return Retrieved(
        record.optional_identifier("doc_id", "id"),
        record.optional_number("score"),
        record.optional_text("text"),
        None if span is None else read_span(span),
    )


def _falls(ranked: Sequence[Retrieved]) -> bool:
    """Say whether the scores never rise with rank, as far as there are any."""
    scores = [result.score for result in ranked if result.score is not None]
    return all(earlier >= later for earlier, later in pairwise(scores))
