"""Judges and metrics of judged for other libraries' evaluation suites."""
