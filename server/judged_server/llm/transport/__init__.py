"""Sends requests to providers: retries, circuit breaker, limits, HTTP."""
