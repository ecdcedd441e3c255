"""What a retriever returned: one result, and the results of many queries from a file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from gzip import GzipFile
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import BinaryIO

from judged._inputs import (
    as_id,
    need_by_ids,
    need_each,
    need_id,
    need_numbers,
    need_text,
    set_fields,
)
from judged._views import short_repr
from judged._writing import replace_text, replacing_text
from judged.errors import InvalidArgument
from judged.evaluation.datasets.files import (
    SYSTEM_MODEL,
    FileError,
    KnownFields,
    Record,
    number_lines,
    open_file,
    parse_json,
    writing,
)
from judged.evaluation.datasets.trec import TrecRun, check_trec_ids, single
from judged.values import Span


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
        if self.score is not None:
            need_numbers(self, "score")
            score = float(self.score)
            if not isfinite(score):
                rule = "must be a finite number, or None where there is none"
                raise InvalidArgument.of_field("score", rule)
            set_fields(self, score=score)


@dataclass(frozen=True, slots=True, repr=False)
class Results(Mapping[str, Sequence[Retrieved]]):
    """The results of queries by query id, best rank first.

    `out_of_order` are the queries whose scores do not fall with rank. The given order is the
    ranking all the same; scores are only looked at to find such queries. `system_models` are the
    language models that lines name as those which made the texts. `warnings` are those of a TREC
    run; see TrecRun.
    """

    by_query: Mapping[str, Sequence[Retrieved]]
    out_of_order: Sequence[str] = ()
    system_models: Sequence[str] = ()
    warnings: Sequence[str] = ()

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
        return cls(found.by_query, [q for q, ranked in found.items() if not scores_fall(ranked)])

    @classmethod
    def from_jsonl(cls, path: Path | str) -> Results:
        """Return the results of a file. Raises FileError."""
        by_query: dict[str, Sequence[Retrieved]] = {}
        line_of: dict[str, int] = {}
        models: dict[str, None] = {}
        with open_file(path) as file:
            for line in LinesOfResults(str(path)).read(file):
                first = line_of.setdefault(line.query_id, line.number)
                if first != line.number:
                    raise line.repeated(first)
                if line.system_model:
                    models[line.system_model] = None
                by_query[line.query_id] = line.results
        return replace(cls.of(by_query), system_models=list(models))

    @classmethod
    def from_trec_run(cls, path: Path | str) -> Results:
        """Return the results of a TREC run, ranked as trec_eval does: by score, ties by id.

        Scores tie that are the same in single precision; `warnings` say where they rank otherwise
        than the rank column. The results have no texts: match them by
        id, or give the data set documents. Raises FileError.
        """
        run = TrecRun.from_file(path)
        by_query = {
            topic: [
                Retrieved(document, score)
                for document, score in sorted(
                    scores.items(),
                    key=lambda item: (single(item[1]), item[0].encode()),
                    reverse=True,
                )
            ]
            for topic, scores in run.scores.items()
        }
        return cls(by_query, warnings=run.warnings)

    def save(self, path: Path | str) -> list[str]:
        """Write the results as JSONL, or as a TREC run where the path ends in .run or .trec.

        Return what the format can't hold, as texts for people. A run keeps the first result of each
        id. Raises FileError.
        """
        with writing(path):
            if Path(path).suffix in (".run", ".trec"):
                return self._save_run(path)
            with replacing_text(path) as file:
                for query_id, ranked in self.by_query.items():
                    line = {"query_id": query_id, "results": [_write(r) for r in ranked]}
                    file.write(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")
        return []

    def _save_run(self, path: Path | str) -> list[str]:
        lines: list[str] = []
        texts = spans = repeats = 0
        for query_id, ranked in self.by_query.items():
            ids = [f"retrieved_{i}" if r.doc_id is None else r.doc_id for i, r in enumerate(ranked)]
            check_trec_ids(path, [query_id, *ids])
            # trec_eval refuses a run with an id twice: several chunks of a document, say.
            names = list(dict.fromkeys(ids))
            repeats += len(ids) - len(names)
            # Only scores rank in TREC: those given may rise or tie, so ranks are written as scores.
            for rank, name in enumerate(names):
                lines.append(f"{query_id} Q0 {name} {rank + 1} {len(names) - rank} judged\n")
            texts += any(result.text is not None for result in ranked)
            spans += any(result.span is not None for result in ranked)
        replace_text(path, "".join(lines))
        found_nothing = sum(not ranked for ranked in self.by_query.values())
        lost = {
            f"texts: those of {texts} queries": texts,
            f"spans: those of {spans} queries": spans,
            f"an id twice in a query: {repeats} later results": repeats,
            f"queries that found nothing: {found_nothing}": found_nothing,
        }
        told = ["a TREC run has ranks as its scores: the scores of the results are left out"]
        told += [f"a TREC run can't hold {what} are left out" for what, n in lost.items() if n]
        return told


@dataclass(frozen=True, slots=True)
class LineOfResults:
    """The results of one query in a file. `number` counts lines from 1, `offset` bytes from 0."""

    record: Record
    number: int
    offset: int
    query_id: str
    results: Sequence[Retrieved]
    system_model: str | None

    def repeated(self, first: int) -> FileError:
        """Return the error that the query has a line already."""
        return self.record.error(f"query {self.query_id!r} was on line {first} already")


class LinesOfResults:
    """Reads the lines of a file of results. Fields with nearly a known name are told of once."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._known = KnownFields("query_id", "id", "results", SYSTEM_MODEL)
        self._inner = KnownFields("doc_id", "id", "score", "text", "span", "metadata")

    def read(self, file: BinaryIO | GzipFile) -> Iterator[LineOfResults]:
        """Yield every line of an open file that is not blank. Raises FileError."""
        for number, raw in number_lines(file, self._name):
            yield self._line(raw, number, file.tell() - len(raw))

    def at(self, file: BinaryIO | GzipFile, offset: int) -> LineOfResults:
        """Return the line that begins at an offset. Raises FileError."""
        file.seek(offset)
        return self._line(file.readline(), 0, offset)

    def _line(self, raw: bytes, number: int, offset: int) -> LineOfResults:
        record = Record(parse_json(raw, self._name, number), self._name, number, "")
        self._known.check(record)
        query_id = record.identifier("query_id", "id")
        if record.get("results") is None:
            raise record.error('has no "results"; write [] for a query that found nothing')
        model = record.optional_text(SYSTEM_MODEL)
        results = [
            _read(Record(value, self._name, number, f"results[{rank}]"), self._inner)
            for rank, value in enumerate(record.items("results"))
        ]
        return LineOfResults(record, number, offset, query_id, results, model)


def need_results(ranked: object, field: str) -> Sequence[Retrieved]:
    """Return the results of a query, read once. Raises WrongType with the field and the place."""
    return need_each(ranked, field, (Retrieved,), "Retrieved(doc_id, score, text)")


def read_span(record: Record) -> Span:
    """Return a span of a file: characters from `start` up to, not including, `end`.

    The names `filename`, `start_char_offset` and `end_char_offset` are read too.
    """
    start = record.position("start", "start_char_offset")
    end = record.position("end", "end_char_offset")
    if end <= start:
        raise record.error(f"has 'end' {end}, which is not above 'start' {start}")
    return Span(record.text("file", "filename"), start, end)


def _read(record: Record, known: KnownFields) -> Retrieved:
    known.check(record)
    span, metadata = record.record("span"), record.record("metadata")
    text = record.optional_text("text")
    if text is None and metadata is not None:
        text = metadata.optional_text("text")
    return Retrieved(
        record.optional_identifier("doc_id", "id"),
        record.optional_number("score"),
        text,
        None if span is None else read_span(span),
    )


def _write(result: Retrieved) -> dict[str, object]:
    return {name: value for name, value in asdict(result).items() if value is not None}


def scores_fall(ranked: Sequence[Retrieved]) -> bool:
    """Say whether the scores never rise with rank, as far as there are any."""
    scores = [result.score for result in ranked if result.score is not None]
    return all(earlier >= later for earlier, later in pairwise(scores))
