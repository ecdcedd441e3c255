"""Topics of qrels and of runs as tests write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from judged_server.metrics.compute import MetricTable, SettledOptions, compute_trec
from judged_server.metrics.input.rankings import Qrels, Topics
from judged_server.metrics.measures import parse_metrics

Documents = Mapping[str, Mapping[str, float]]
"""{topic: {document: number}}, as trec_eval's packages take them."""


class Topic(NamedTuple):
    """One topic: its documents, and a grade or a score for each."""

    query_id: str
    document_ids: Sequence[str]
    values: Sequence[float] = ()


def qrels_of(topics: Iterable[Topic]) -> Qrels:
    """Return the qrels of topics."""
    return Qrels.of(Topics.of_rows(list(topics), "trec.qrels", "grades"))


def run_of(topics: Iterable[Topic]) -> Topics:
    """Return the topics of a run."""
    return Topics.of_rows(list(topics), "trec.run", "scores")


def measured(
    qrels: Documents, run: Documents, names: Iterable[str], **options: Any
) -> tuple[dict[str, dict[str, float]], MetricTable]:
    """Return {name: {topic: value}} and the table of a run."""
    judged, ranked = (
        [Topic(topic, list(docs), list(docs.values())) for topic, docs in side.items()]
        for side in (qrels, run)
    )
    table = compute_trec(
        parse_metrics(list(names)), qrels_of(judged), run_of(ranked), SettledOptions(**options)
    )
    topics = [judged[row].query_id for row in table.rows]
    values = {
        column.name: dict(zip(topics, column.values.tolist(), strict=True))
        for column in table.columns
    }
    return values, table
