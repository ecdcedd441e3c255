"""All that judges by a language model: contexts, answers, claims, dimensions, votes."""
