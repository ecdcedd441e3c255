"""Rankings from callers' input: qrels and runs, gains, verdicts."""
