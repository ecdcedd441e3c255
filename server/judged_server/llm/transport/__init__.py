"""A request on its way to a provider: retry, breaker, limits, HTTP."""
