"""Runs judges over groups: which judge, in which slices, and what becomes of the verdicts."""
