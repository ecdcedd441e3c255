"""Judgements and runs as people hold them. No protobuf, no NumPy.

Owns the public values of rankings whose documents were judged by id. How they travel is up to
`_trec`, how large ones are cut to `_split`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class ScoredDocuments(NamedTuple):
    """Documents and their scores as two columns, the way that retrievers return them.

    A column may be of any kind that has a length and can be walked over, such as an array. Scores
    rank, whatever the order of the columns; without scores their order is the ranking.
    """

    document_ids: Sequence[str]
    scores: Sequence[float] = ()


RetrievedDocuments = Mapping[str, float] | Sequence[str] | ScoredDocuments
"""What a run has for a query: document id to score, a list of ids, best first, or two columns."""


@dataclass(frozen=True, slots=True)
class TrecRankings:
    """Judgements and a run.

    `qrels` maps query id to document id to grade. `run` maps query id to document id to score, to
    a list of document ids, best first, or to ScoredDocuments, which is the fastest to send.
    """

    qrels: Mapping[str, Mapping[str, int]]
    run: Mapping[str, RetrievedDocuments]
