"""Persistent storage: caches of replies and vectors, and the record of spending.

kept_rows         a SQLite cache of model replies and text vectors that tolerates disk failures
ledger            spending per budget, in a SQLite file
postgres          replies in a PostgreSQL database that servers share, and claims on missing replies
postgres_ledger   spending, in that database

`llm` and `embedding` choose the keys and the contents.
"""
