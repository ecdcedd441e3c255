"""Other libraries' retrievers for our Evaluator, and our judges and metrics for their suites.

One module a library, which imports that library: `judged.adapters.retrievers.langchain`, say. None
of them is installed with judged. docs/migration.md has an example of each.
"""
