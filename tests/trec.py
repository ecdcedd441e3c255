"""Topics of qrels and of runs as tests write them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from judged_server.metrics.input.trec import Qrels, Topics


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
