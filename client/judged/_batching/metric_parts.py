"""One compute_metrics() call that takes several messages: its parts, their tables, the whole.

Sending is the clients' part; the cut and the sums are in `rankings`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain

from judged import errors
from judged._batching.rankings import (
    PART_BYTES,
    Metadata,
    among,
    check_human_values,
    check_metadata,
    check_rankings,
    for_part,
    for_whole,
    means_of,
    merge,
    query_ids_of,
    split,
    values_of,
)
from judged._convert.metrics import read_table, write_metrics
from judged._inputs import as_metrics, need_by_ids, need_kind, set_fields
from judged._transport.status import rename_paths
from judged.v1 import judge_service_pb2 as pb
from judged.values.groups import EmbeddedRankings
from judged.values.metrics import MetricOptions, MetricTable
from judged.values.rankings import (
    GainRankings,
    JudgedRankings,
    PerQueryValues,
    Relevance,
    TrecRankings,
)

_PATH = re.compile(
    r"(?<![\w.])(trec\.qrels|trec\.run|gains\.rankings|embedded\.rankings|judged\.rankings"
    r"|judged\.verdicts\.\w+|metadata|human_values\.query_ids)\[(\d+)\]"
)


@dataclass(frozen=True, slots=True)
class Given:
    """What is measured, of the whole or of a part, and what is known of its queries."""

    relevance: Relevance
    metadata: Metadata
    human: PerQueryValues | None = None

    def __post_init__(self) -> None:
        kinds = (TrecRankings, JudgedRankings, GainRankings, EmbeddedRankings, PerQueryValues)
        others = " or ".join(kind.__name__ for kind in kinds[1:])
        what = f"TrecRankings(qrels, run), for judgements and a run, or {others}"
        need_kind(self.relevance, "relevance", kinds, what)
        if self.human is not None:
            need_kind(self.human, "human_values", PerQueryValues, "PerQueryValues")
        set_fields(self, metadata=need_by_ids(self.metadata, "metadata"))

    def names(self, path: str) -> list[str]:
        """Return a name for each entry of a repeated field, the same in a part as in the whole.

        It is the id of the entry's query; of a verdict, with the verdict's place in its query.
        """
        if path == "metadata":
            return list(self.metadata)
        if path == "human_values.query_ids":
            return list(self.human.query_ids) if self.human is not None else []
        if path.startswith("judged.verdicts") and isinstance(self.relevance, JudgedRankings):
            sizes = (
                (one.query_id, one.expected * one.retrieved) for one in self.relevance.rankings
            )
            return [f"{query_id} {n}" for query_id, size in sizes for n in range(size)]
        if isinstance(self.relevance, TrecRankings):
            trec = self.relevance
            return list(trec.run if path == "trec.run" else trec.qrels)
        return list(query_ids_of(self.relevance))


class Parts:
    """The parts of a call and their tables so far; none where one message holds everything.

    Parts can't see each other, so what the server would refuse for that is refused here: raises
    InvalidArgument for a query that is there twice, and for metadata and human values of a query
    that is not there.
    """

    def __init__(
        self,
        metrics: Sequence[str],
        given: Given,
        options: MetricOptions,
        part_bytes: int = PART_BYTES,
    ) -> None:
        self._metrics = as_metrics(metrics)
        self._given = given
        self._options = options
        self._parts: Iterator[Relevance] = iter(())
        self._tables: list[MetricTable] = []
        parts = split(given.relevance, part_bytes)
        first = next(parts)  # the second is made only when the first is on its way
        self._one_message = len(query_ids_of(first)) == len(query_ids_of(given.relevance))
        if not self._one_message:
            check_rankings(given.relevance)
            check_metadata(given.relevance, given.metadata)
            check_human_values(given.relevance, given.human)
            self._parts = chain((first,), parts)

    def requests(self) -> Iterator[tuple[Given, pb.ComputeMetricsRequest]]:
        """Yield what to send for each part, in order, made as it is asked for."""
        for relevance in self._parts:
            asked, metadata = for_part(relevance, self._options, self._given.metadata)
            part = Given(relevance, metadata)
            with self.about(part):
                request = write_metrics(self._metrics, relevance, asked, metadata)
            yield part, request

    def answered(self, reply: pb.ComputeMetricsResponse) -> None:
        """Take in the answer of the next part, in the order of the requests."""
        self._tables.append(read_table(reply.table))

    @contextmanager
    def about(self, part: Given) -> Iterator[None]:
        """Make errors about a part speak of the whole: trec.run[0] of a later part is another."""
        if part is self._given:
            yield
            return

        def rename(match: re.Match[str]) -> str:
            query_id = part.names(match[1])[int(match[2])]
            return f"{match[1]}[{self._given.names(match[1]).index(query_id)}]"

        try:
            yield
        except errors.InvalidArgument as error:
            raise rename_paths(error, _PATH, rename) from None

    def whole(self) -> tuple[Given, pb.ComputeMetricsRequest] | None:
        """Return what to send once all parts are answered; None where they say it all."""
        given, options = self._given, self._options
        if self._one_message:
            request = write_metrics(
                self._metrics, given.relevance, options, given.metadata, given.human
            )
            return given, request
        values = values_of(self._tables)
        more = options.interval is not None or options.slice_by or given.human is not None
        # Metadata are for the server to check, and what makes a part doubtful is for it to say.
        if not (more or given.metadata or values.id_fits):
            return None
        asked, metadata = for_whole(values, self._options, self._given.metadata)
        human = among(self._given.human, values)
        part = Given(values, metadata, human)
        with self.about(part):
            return part, write_metrics(self._metrics, values, asked, metadata, human)

    def table(self, reply: pb.ComputeMetricsResponse | None = None) -> MetricTable:
        """Return the table of the whole, given the answer to `whole` if that was to be sent."""
        if reply is not None and self._one_message:
            return read_table(reply.table)
        if reply is None:
            means = means_of(values_of(self._tables), self._tables)
        else:
            means = read_table(reply.table)
        return merge(means, self._tables, self._options)
