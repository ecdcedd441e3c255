"""Our judges and metrics for the suites of other libraries."""
