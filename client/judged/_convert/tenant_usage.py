"""Reads what a tenant has used."""

from __future__ import annotations

from datetime import UTC

from judged._convert.fields import read_fields
from judged.types.tenant_usage import BudgetLeft, TenantUsage
from judged.v1 import judge_service_pb2 as pb


def read_usage(message: pb.GetUsageResponse) -> TenantUsage:
    """Return what a tenant has used."""
    budgets = [
        read_fields(BudgetLeft, each, renewed_at=each.renewed_at.ToDatetime(tzinfo=UTC))
        for each in message.budgets
    ]
    return read_fields(TenantUsage, message, budgets=budgets)
