"""Use cases, in domain values: what a call judges, measures or estimates, and in which order."""
