"""Files in which a server keeps what it would rather not compute, or pay for, again.

kept_rows      replies of language models and vectors of texts, whatever the disk does
ledger         what was spent of each budget

What is kept, under which key, is up to `llm` and `embedding`.
"""
