"""Reads what a tenant has used."""

from __future__ import annotations

from datetime import UTC

from judged.types.tenant_usage import BudgetLeft, TenantUsage, UsageRow
from judged.v1 import judge_service_pb2 as pb


def read_usage(message: pb.GetUsageResponse) -> TenantUsage:
    """Return what a tenant has used."""
    return TenantUsage(
        message.tenant,
        message.is_recorded,
        [
            UsageRow(
                row.day,
                row.judge,
                row.rubric,
                row.model,
                row.questions,
                row.input_tokens,
                row.output_tokens,
                row.cost,
                row.currency,
            )
            for row in message.rows
        ],
        [
            BudgetLeft(
                each.budget,
                each.limit,
                each.left,
                each.currency,
                each.renewed_at.ToDatetime(tzinfo=UTC),
            )
            for each in message.budgets
        ],
    )
