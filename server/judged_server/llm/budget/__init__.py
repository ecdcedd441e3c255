"""What questions may cost, and the budgets that must not be overrun.

tokens_at_most, request_tokens   text, ChatRequest -> tokens, from above
cost_of                          Prices and tokens -> nano-units
most_of                          model, ChatRequest -> the most it can cost, in nano-units
Budgets                          reserves before a call to a model, settles after it
TenantBudgets                    those of the tenant of the call in work
BudgetLeft                       a budget, and what is left of it
BudgetAccount                    a budget of a day or a month, kept in a ledger
"""

from judged_server.llm.budget.account import (
    BudgetAccount,
    Period,
    TenantBudgets,
    default_ledger,
)
from judged_server.llm.budget.budgets import (
    BudgetLeft,
    Budgets,
    refuse_if_nothing_asked,
    unpriced,
)
from judged_server.llm.budget.pricing import (
    CallEstimate,
    cost_of,
    estimate_call,
    most_of,
    request_tokens,
    tokens_at_most,
)

__all__ = [
    "BudgetAccount",
    "BudgetLeft",
    "Budgets",
    "CallEstimate",
    "Period",
    "TenantBudgets",
    "cost_of",
    "default_ledger",
    "estimate_call",
    "most_of",
    "refuse_if_nothing_asked",
    "request_tokens",
    "tokens_at_most",
    "unpriced",
]
