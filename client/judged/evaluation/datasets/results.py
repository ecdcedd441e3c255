"""What a retriever returned: one result, and the results of many queries from a file."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from io import BytesIO
from itertools import pairwise
from math import isfinite, nan
from pathlib import Path
from typing import NamedTuple

from judged._files import (
    SYSTEM_MODEL,
    FileError,
    KnownFields,
    Record,
    json_line,
    number_records,
    open_file,
    replacing_text,
    writing,
)
from judged._inputs import as_id, need_by_ids, need_id, need_list, set_fields
from judged._views import short_repr
from judged.errors import InvalidArgument, WrongType
from judged.evaluation.datasets.trec import TrecRun, single
from judged.values import Span

_RETRIEVED = "Retrieved(doc_id, score, text)"


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
        if not isinstance(self.text, str | None):
            raise WrongType.of_field("text", f"must be text, not {type(self.text).__name__}")
        if self.score is not None:
            score = float(self.score) if hasattr(type(self.score), "__float__") else nan
            if not isfinite(score):
                rule = f"must be a finite number or None, not {self.score!r:.80}"
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
            query_id: need_list(ranked, f"results[{query_id!r}]", _RETRIEVED)
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
        with open_file(path) as file:
            lines = list(_read_lines(file, str(path), _known()))
        found = cls.of({line.query_id: line.results for line in lines})
        models = dict.fromkeys(line.system_model for line in lines if line.system_model)
        return replace(found, system_models=list(models))

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

    def save(self, path: Path | str) -> None:
        """Write the results as lines of JSON. Raises FileError."""
        with writing(path), replacing_text(path) as file:
            for query_id, ranked in self.by_query.items():
                file.write(json_line({"query_id": query_id, "results": list(map(_write, ranked))}))


class ResultFile(Mapping[str, Sequence[Retrieved]]):
    """The results of a file by query id, each line read again when it is asked for.

    So only ids are held. The file must be a plain one, whose lines can be read in any order.
    `out_of_order` and `system_models` are those of `Results`.
    """

    def __init__(self, path: Path | str) -> None:
        """Read all lines once. Raises FileError."""
        self._name, self._known = str(path), _known()
        self._places: dict[str, tuple[int, int]] = {}
        self.out_of_order: list[str] = []
        models: dict[str, None] = {}
        with open_file(path) as file:
            self._descriptor = os.dup(file.fileno())
            weakref.finalize(self, os.close, self._descriptor)
            start = 0
            for line in _read_lines(file, self._name, self._known):
                end = file.tell()
                self._places[line.query_id], start = (end - start, start), end
                if not scores_fall(line.results):
                    self.out_of_order.append(line.query_id)
                if line.system_model:
                    models[line.system_model] = None
        self.system_models = list(models)

    def __getitem__(self, query_id: str) -> Sequence[Retrieved]:
        read = os.pread(self._descriptor, *self._places[query_id])
        line = next(_read_lines(BytesIO(read), self._name, self._known), None)
        if line is None or line.query_id != query_id:
            raise FileError(self._name, None, "was changed while it was read; start again")
        return line.results

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class _Line(NamedTuple):
    query_id: str
    results: Sequence[Retrieved]
    system_model: str | None


def _known() -> tuple[KnownFields, KnownFields]:
    """Return the fields of lines and of their results: what has nearly such a name is told once."""
    of_result = KnownFields("doc_id", "id", "score", "text", "span", "metadata")
    return KnownFields("query_id", "id", "results", SYSTEM_MODEL), of_result


def _read_lines(
    lines: Iterable[bytes], name: str, known: tuple[KnownFields, KnownFields]
) -> Iterator[_Line]:
    """Yield the lines of a file that are not blank. Raises FileError, also for a query again."""
    of_line, of_result = known
    line_of: dict[str, int | None] = {}
    for record in number_records(lines, name):
        of_line.check(record)
        query_id = record.identifier("query_id", "id")
        record.refuse_again(line_of, query_id, f"query {query_id!r} was on line {{}} already")
        if record.get("results") is None:
            raise record.error('has no "results"; write [] for a query that found nothing')
        model = record.optional_text(SYSTEM_MODEL)
        results = [_read(inner, of_result) for inner in record.records("results")]
        yield _Line(query_id, results, model)


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
    inner = None if metadata is None else metadata.optional_text("text")
    text = record.optional_text("text")
    return Retrieved(
        record.optional_identifier("doc_id", "id"),
        record.optional_number("score"),
        inner if text is None else text,
        None if span is None else read_span(span),
    )


def _write(result: Retrieved) -> dict[str, object]:
    return {name: value for name, value in asdict(result).items() if value is not None}


def scores_fall(ranked: Sequence[Retrieved]) -> bool:
    """Say whether the scores never rise with rank, as far as there are any."""
    scores = [result.score for result in ranked if result.score is not None]
    return all(earlier >= later for earlier, later in pairwise(scores))
