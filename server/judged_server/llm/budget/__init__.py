"""What questions may cost, and the budgets that must not be overrun.

The way down: `budgets` reserves before a call to a model and settles after it; `account` is one
budget of a day or a month, kept in a ledger; `pricing` says what a call may cost.
"""
