"""How each provider spells a request and a reply: pure functions, one module a dialect.

Own no connection, no clock and no retries: those are in `models` and below.
"""
