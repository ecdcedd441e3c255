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
        self._months: dict[str, BudgetAccount] = {}
        self._days: dict[str, BudgetAccount] = {}

    def __call__(self) -> Sequence[BudgetAccount]:
        """Return none, one or two of them, those of a month first."""
        tenant = current_tenant()
        found = []
        if tenant.per_month is not None:
            account = self._months.get(tenant.name) or self._begin(tenant.name, Period.MONTH)
            account.limit = nano_within(tenant.per_month)
            found.append(account)
        if tenant.per_day is not None:
            account = self._days.get(tenant.name) or self._begin(tenant.name, Period.DAY)
            account.limit = nano_within(tenant.per_day)
            found.append(account)
        return found

    def _begin(self, name: str, period: Period) -> BudgetAccount:
        known = self._months if period is Period.MONTH else self._days
        account = BudgetAccount(self._ledger, self._currency, 0, self._clock, name, period)
        known[name] = account
        return account
