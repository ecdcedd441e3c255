"""Rankings from what callers bring: qrels and runs, gains, verdicts."""
