"""Reports a tenant's usage of language models."""

from __future__ import annotations

from datetime import timedelta

from judged.values.server_info import TenantUsage, UsageRow

from judged_server.domain import to_amount
from judged_server.errors import Overloaded
from judged_server.llm.budgets import Budgets, Period
from judged_server.llm.transport.endpoint import Clock
from judged_server.store.ledger import LedgerFault
from judged_server.tenant import TENANT

_BACK_AFTER_S = 1.0


async def tenant_usage(budgets: Budgets, days: int) -> TenantUsage:
    """Return the usage of the current call's tenant in the last `days` days, today included.

    Raises Overloaded if the ledger can't be read now.
    """
    since = (Clock().date() - timedelta(days=days - 1)).strftime(Period.DAY.value)
    try:
        used = await budgets.used_by_tenant(since)
        left = await budgets.left_of_tenant()
    except LedgerFault:
        raise Overloaded(
            "what was spent can't be read now; try again, and where that goes on tell the operator",
            _BACK_AFTER_S,
        ) from None
    return TenantUsage(
        TENANT.get().name,
        used is not None,
        [
            UsageRow(day, judge, rubric, model, asked, read, written, to_amount(nano), currency)
            for day, _, judge, model, rubric, currency, asked, read, written, nano in used or ()
        ],
        left,
    )
