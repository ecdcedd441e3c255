"""Other libraries' retrievers for our Evaluator."""
