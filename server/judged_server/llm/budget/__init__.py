"""What questions may cost, and the budgets that must not be overrun.

tokens_at_most, request_tokens   text, ChatRequest -> tokens, from above
cost_of                          Prices and tokens -> nano-units
prices_of, most_of               model, ChatRequest -> the most it can cost, in nano-units
Budgets                          reserves before a call to a model, settles after it
DayLedger                        what a machine has spent today, kept in a file
"""

from judged_server.llm.budget.budgets import (
    Budgets,
    most_of,
    prices_of,
    refuse_if_nothing_asked,
    unpriced,
)
from judged_server.llm.budget.day import DayLedger, LedgerFault, default_ledger
from judged_server.llm.budget.pricing import cost_of, request_tokens, tokens_at_most

__all__ = [
    "Budgets",
    "DayLedger",
    "LedgerFault",
    "cost_of",
    "default_ledger",
    "most_of",
    "prices_of",
    "refuse_if_nothing_asked",
    "request_tokens",
    "tokens_at_most",
    "unpriced",
]
