"""Adapts other libraries' retrievers to the Evaluator, and judged to their evaluation suites.

There is one module per library, such as `judged.adapters.retrievers.langchain`; it imports the
library, which is not installed with judged. docs/migration.md has an example of each.
"""
