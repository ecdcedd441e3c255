"""The budgets of the tenants, as their file has them at the moment."""

from __future__ import annotations

from collections.abc import Sequence

from judged_server.domain.usage import nano_within
from judged_server.llm.budget.account import BudgetAccount, Period, Spending
from judged_server.llm.transport.clock import Clock
from judged_server.tenant import current_tenant


class TenantBudgets:
    """Returns the budgets of the tenant of the call in work. Used on one event loop."""

    def __init__(self, ledger: Spending, currency: str, clock: Clock) -> None:
        self._ledger = ledger
        self._currency = currency
        self._clock = clock
        self._accounts: dict[tuple[str, Period], BudgetAccount] = {}

    def __call__(self) -> Sequence[BudgetAccount]:
        """Return none, one or two of them, those of a month first."""
        tenant = current_tenant()
        limits = (Period.MONTH, tenant.per_month), (Period.DAY, tenant.per_day)
        return [
            self._account(tenant.name, period, limit)
            for period, limit in limits
            if limit is not None
        ]

    def _account(self, name: str, period: Period, limit: float) -> BudgetAccount:
        account = self._accounts.get((name, period))
        if account is None:
            account = self._accounts[name, period] = BudgetAccount(
                self._ledger, self._currency, 0, self._clock, name, period
            )
        account.limit = nano_within(limit)
        return account
