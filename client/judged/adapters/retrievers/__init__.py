"""Other libraries' retrievers for the Evaluator."""
