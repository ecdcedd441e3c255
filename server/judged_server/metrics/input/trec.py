"""Qrels and runs: their topics, and a run joined with qrels as trec_eval joins and ranks them.

Topics have all grades or scores as one array; places stand for scores that are not given, and up to
2^24 they are distinct in single precision. Their ids become strings topic by topic, when they
are looked at, so that those of a large run never fill the memory all at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from judged.values.metrics import MetricCounts
from judged.values.rankings import IdFit

from judged_server.domain import (
    Float32Array,
    FloatArray,
    IntArray,
    check_unique,
    need,
    need_length,
)
from judged_server.metrics.input.id_fit import IdSample
from judged_server.metrics.input.rankings import (
    Rankings,
    flatten,
    ideal_of,
    offsets_of,
    owners,
    positions_in_groups,
    refuse_first,
)
from judged_server.scheduling.checkpoint import checkpoint

LARGEST_SINGLE = float(np.finfo(np.float32).max)

_LINE_FEED = ord("\n")


@dataclass(frozen=True, slots=True)
class Topics:
    """Topics with their documents: topic i owns the entries offsets[i] to offsets[i + 1].

    `names(i)` are the ids of its documents; `values` is float64: grades or scores. `field` is the
    path of the topics in the request, and `column` the name of the values there.
    """

    query_ids: list[str]
    offsets: IntArray
    names: Callable[[int], list[str]]
    values: FloatArray
    field: str
    column: str

    @classmethod
    def of_rows(
        cls,
        rows: Sequence[tuple[str, Collection[str], Collection[float]]],
        field: str,
        column: str,
    ) -> Self:
        """Return topics that came one by one: the id of each, its documents, their values.

        Scores may be left out: the given order is then the ranking. Raises InvalidField at
        `field[i].column` for columns of different lengths.
        """
        values: list[Collection[float]] = []
        for i, (_, names, numbers) in enumerate(rows):
            n, ranked = len(names), column == "scores" and not len(numbers)
            values.append(range(0, -n, -1) if ranked else numbers)
            need_length(values[-1], n, f"{field}[{i}].{column}", "documents")
        offsets, flat = flatten(values)
        query_ids = [name for name, _, _ in rows]
        return cls(query_ids, offsets, lambda i: list(rows[i][1]), flat, field, column)

    @classmethod
    def of_columns(
        cls,
        query_ids: list[str],
        counts: IntArray,
        document_ids: str,
        values: FloatArray | None,
        paths: tuple[str, str],
        column: str,
    ) -> Self:
        """Return topics that came in columns.

        `counts` is int64[topics], the documents of each; `document_ids` has a line feed between two
        ids, and `values` is float64, one each, or None: then they are the places in the given
        order, descending from 0. `paths` are those of the topics and of the columns. Raises
        InvalidField below the latter for columns that do not fit together.
        """
        field, path = paths
        need_length(counts, len(query_ids), f"{path}.n_documents", "topics")
        offsets, n = offsets_of(counts), int(counts.sum())
        text = f"{document_ids}\n".encode() if n or document_ids else b""
        line_feeds = np.flatnonzero(np.frombuffer(text, np.uint8) == _LINE_FEED)
        rule = f"must have the {n} ids that n_documents add up to, a line feed between two"
        need(len(line_feeds) == n, f"{path}.document_ids", rule)
        if values is None:
            values = np.subtract(0.0, positions_in_groups(counts))
        need_length(values, n, f"{path}.values", "documents")
        bounds = np.append(0, line_feeds + 1)[offsets].tolist()

        def names(topic: int) -> list[str]:
            return text[bounds[topic] : bounds[topic + 1]].decode().split("\n")[:-1]

        return cls(query_ids, offsets, names, values, field, column)

    def __len__(self) -> int:
        """Return the number of topics."""
        return len(self.query_ids)

    @property
    def counts(self) -> IntArray:
        """int64[topics]: how many documents each has."""
        return np.diff(self.offsets)

    def check(self) -> None:
        """Refuse a query id that is there before, and a value not finite in single precision."""
        check_unique(self.query_ids, f"{self.field}[{{}}].query_id")
        beyond = ~(np.abs(self.values) <= LARGEST_SINGLE)
        rule = "must be a finite number within single precision, +-3.4e38"
        refuse_first(beyond, self.offsets, self.field, self.column, rule)

    def check_distinct(self, topic: int) -> None:
        """Refuse a document that the topic has before."""
        check_unique(self.names(topic), f"{self.field}[{topic}].document_ids[{{}}]")


@dataclass(frozen=True)
class Qrels:
    """Judgements, read and checked once for all the runs that are ranked under them.

    `row_of` has the place of each topic by its query id, in their order.
    """

    topics: Topics
    row_of: Mapping[str, int]

    @classmethod
    def of(cls, topics: Topics) -> Self:
        """Return the qrels of topics.

        Raises InvalidField for a repeated topic, at `field[i].query_id`, a grade that is not finite
        in single precision, at `field[i].grades[j]`, and a document that is judged twice, at
        `field[i].document_ids[j]`.
        """
        topics.check()
        for topic in range(len(topics)):
            checkpoint()
            names = topics.names(topic)
            if len(set(names)) < len(names):
                topics.check_distinct(topic)
        return cls(topics, {query_id: row for row, query_id in enumerate(topics.query_ids)})

    def __len__(self) -> int:
        """Return the number of topics."""
        return len(self.row_of)

    @cached_property
    def topic_of(self) -> IntArray:
        """int64[documents]: the topic that each judged document is of."""
        return owners(self.topics.offsets)

    @cached_property
    def ideal(self) -> tuple[IntArray, FloatArray]:
        """int64[topics + 1] offsets, and float64: the grades above 0 of each topic, descending."""
        relevant = self.topics.values > 0
        return ideal_of(self.topic_of[relevant], self.topics.values[relevant], len(self))

    @cached_property
    def n_nonrelevant(self) -> IntArray:
        """int64[topics]: how many documents were judged not relevant."""
        return np.bincount(self.topic_of[self.topics.values == 0], minlength=len(self))


class RankedRun(NamedTuple):
    """A run joined with qrels.

    `rankings` has one query for each entry of `rows` (int64, ascending): the topics of the qrels
    that are evaluated, by their place there. `id_fit` is how the ids of both fit.
    """

    rankings: Rankings
    rows: IntArray
    counts: MetricCounts
    id_fit: IdFit


def rank_run(
    qrels: Qrels, run: Topics, *, complete: bool = False, strict_duplicates: bool = False
) -> RankedRun:
    """Return the rankings of a run's topics, in the order of the qrels.

    A topic of the qrels that the run lacks is skipped and counted, or retrieved nothing if
    `complete`; a topic without qrels is skipped and counted. Of a document that repeats in a topic
    of the run the first is kept and the others are counted.

    Raises InvalidField for a repeated topic, at `field[i].query_id`; a document retrieved twice if
    `strict_duplicates`, at `field[i].document_ids[j]`; and a score that is not finite in single
    precision, at `field[i].scores[j]`.
    """
    run.check()
    judged, n, seen = qrels.topics, len(qrels), IdSample()
    # 0 - score makes one of -0 and +0.
    losses: Float32Array = np.float32(0) - run.values.astype(np.float32)
    breaks = offsets_of(np.append(losses[1:] <= losses[:-1], False))
    lasts = np.maximum(run.offsets[1:] - 1, run.offsets[:-1])
    in_order = (breaks[lasts] == breaks[run.offsets[:-1]]).tolist()
    begins, judged_begins = run.offsets.tolist(), judged.offsets.tolist()
    counts, ranks, duplicates = [0] * n, np.full(len(judged.values), -1), 0
    for topic, query_id in enumerate(run.query_ids):
        checkpoint()
        names = run.names(topic)
        kept = dict(zip(reversed(names), range(len(names) - 1, -1, -1), strict=True))
        if len(kept) < len(names):
            duplicates += len(names) - len(kept)
            if strict_duplicates:
                run.check_distinct(topic)
        row = qrels.row_of.get(query_id)
        if row is None:
            continue
        counts[row], wanted = len(kept), judged.names(row)
        if len(kept) < len(names) or not in_order[topic]:
            kept = _ranked(kept, losses[begins[topic] :])
        found = [kept.get(name, -1) for name in wanted]
        ranks[judged_begins[row] : judged_begins[row + 1]] = found
        if names and -1 in found:
            seen.look(wanted, names)
    known = ranks >= 0
    n_retrieved = np.array(counts, np.int64)
    offsets = offsets_of(n_retrieved)
    gains = np.full(offsets[-1], np.nan)
    gains[offsets[qrels.topic_of[known]] + ranks[known]] = judged.values[known]
    rankings = Rankings(offsets, gains, *qrels.ideal, judged_others=qrels.n_nonrelevant)
    met = {qrels.row_of[query_id] for query_id in run.query_ids if query_id in qrels.row_of}
    rows = np.arange(n) if complete else np.array(sorted(met), np.int64)
    skipped = len(run) - len(met)
    counted = MetricCounts(
        queries=n + skipped,
        evaluated=len(rows),
        skipped_missing=n - len(rows),
        skipped_unjudged=skipped,
        duplicates=duplicates,
    )
    n_expected = int(judged.counts[n_retrieved > 0].sum())
    id_fit = seen.fit(n_expected, int(known.sum()), len(gains))
    return RankedRun(rankings.take(rows), rows, counted, id_fit)


def _ranked(places: Mapping[str, int], losses: Float32Array) -> dict[str, int]:
    """Return the ranks from 0 of documents whose losses are at `places`.

    Ties go by id, the larger first. Strings compare like strcmp: UTF-8 sorts as code points do.
    """
    names = sorted(places, reverse=True)
    order = np.argsort(losses[[places[name] for name in names]], kind="stable")
    return {names[place]: rank for rank, place in enumerate(order.tolist())}
