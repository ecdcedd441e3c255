"""Files of queries, results, qrels and runs, and how they are joined."""
