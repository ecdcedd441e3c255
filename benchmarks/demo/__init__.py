"""The demo: real questions, two retrievers, three judges, one table. `make demo` runs it."""
