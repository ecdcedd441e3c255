"""The messages of GetUsage."""

from __future__ import annotations

from judged.v1 import judge_service_pb2 as pb

from judged_server.api.convert.fields import write
from judged_server.domain.usage import to_amount
from judged_server.errors import InvalidField
from judged_server.usecases.tenant_usage import TenantUsage

DEFAULT_DAYS, MOST_DAYS = 31, 366


def read_days(request: pb.GetUsageRequest) -> int:
    """Return the days to look back. Raises InvalidField."""
    if request.days > MOST_DAYS:
        raise InvalidField("days", f"must be {MOST_DAYS} at most, or 0 for {DEFAULT_DAYS}")
    return request.days or DEFAULT_DAYS


def write_usage(usage: TenantUsage) -> pb.GetUsageResponse:
    """Return what a tenant used, and what is left of its budgets."""
    reply = pb.GetUsageResponse(
        tenant=usage.tenant,
        is_recorded=usage.used is not None,
        rows=[write(pb.UsageRow, row, cost=to_amount(row.nano)) for row in usage.used or ()],
    )
    for budget, renewed_at in usage.budgets:
        left = reply.budgets.add(
            budget=budget.name,
            limit=to_amount(budget.limit),
            left=to_amount(budget.left),
            currency=usage.currency,
        )
        left.renewed_at.FromDatetime(renewed_at)
    return reply
