"""Files in which a server keeps what it would rather not compute, or pay for, again.

sqlite_file    one SQLite file that survives what a disk does, shared by the processes of a machine
write_queue    a thread that writes what waits, so that nobody else does
replies        the file of language models' replies, and how it is read and written off the loop
ledger         what was spent of each budget

What is kept, under which key, is up to `llm` and `embedding`.
"""
