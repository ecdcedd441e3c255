"""What an evaluation gives back: a table, the verdicts, and what was found of negatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from judged._views import View, plain
from judged.types.judges import JudgeIdentity, Usage
from judged.types.metrics import MetricTable
from judged.types.verdicts import VerdictCounts, Verdicts


@dataclass(frozen=True, slots=True)
class NegativeMatch:
    """A retrieved text that matches a negative reference.

    `retrieved` is its rank, from 0, and `negative` the reference's index in the group's negatives.
    """

    query_id: str
    retrieved: int
    negative: int
    document_id: str
    score: float


@dataclass(frozen=True, slots=True, repr=False)
class NegativeReport(View):
    """The results that match a negative reference, by group and rank, and how many queries have.

    `counts` sums up the verdicts of all results against all negatives of their queries.
    """

    queries: int
    queries_hit: int
    matches: Sequence[NegativeMatch]
    counts: VerdictCounts

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row a match. Ranks count from 1, negatives from 0."""
        return [
            {
                "query_id": match.query_id,
                "rank": match.retrieved + 1,
                "document_id": match.document_id,
                "negative": match.negative,
                "score": match.score,
            }
            for match in self.matches
        ]


@dataclass(frozen=True, slots=True, repr=False)
class Evaluation(View):
    """Metrics of judged groups, and the judge (None when it had nothing to judge).

    `negatives` is None when no group has any, `usage` when no language model was asked. Queries on
    which a retriever failed have no part in the metrics; `failures` says why, by query id.
    `warnings` tell what else to mind.
    """

    table: MetricTable
    judge: JudgeIdentity | None
    verdicts: Verdicts | None
    negatives: NegativeReport | None = None
    usage: Usage | None = None
    failures: Mapping[str, str] = field(default_factory=dict)
    warnings: Sequence[str] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the document that `judged compare` and `--baseline` read; see MetricTable."""
        document = {
            **self.table.to_dict(),
            "signature": None if self.judge is None else self.judge.signature,
            "warnings": list(self.warnings),
        }
        told = {"usage": self.usage, "negatives": self.negatives, "failures": self.failures}
        return document | {name: plain(value) for name, value in told.items() if value}

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row a metric; those of queries are `table.to_query_rows()`."""
        return self.table.to_rows()
