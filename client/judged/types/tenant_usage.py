"""What a tenant of a server has used, and what is left of its budgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class UsageRow:
    """What was asked of one model by one judge and rubric on one day, in UTC ("2026-11-25").

    `judge` is its kind, "answers" for `score_answers`, "" where an older server has noted it.
    `cost` is in `currency`; questions without a reply are in it at the most that they can cost.
    """

    day: str
    judge: str
    rubric: str
    model: str
    questions: int
    input_tokens: int
    output_tokens: int
    cost: float
    currency: str


@dataclass(frozen=True, slots=True)
class BudgetLeft:
    """One budget, "tenant_per_day" or "tenant_per_month", and what is left of it.

    `renewed_at` is when the next day or month begins, in UTC.
    """

    budget: str
    limit: float
    left: float
    currency: str
    renewed_at: datetime


@dataclass(frozen=True, slots=True)
class TenantUsage:
    """What the caller's tenant has used, the oldest day first.

    `tenant` is "" on a server without tenants, which counts all callers as one. Where it writes
    nothing down (`is_recorded` is false) there are no rows.
    """

    tenant: str
    is_recorded: bool
    rows: Sequence[UsageRow]
    budgets: Sequence[BudgetLeft]
