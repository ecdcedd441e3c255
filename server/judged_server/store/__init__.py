"""Where a server keeps what it would rather not compute, or pay for, again.

kept_rows         replies of language models and vectors of texts in a file, whatever the disk does
ledger            what was spent of each budget, in a file
postgres          replies in a database that servers share, and who asks for which
postgres_ledger   what was spent, in that database

What is kept, under which key, is up to `llm` and `embedding`.
"""
