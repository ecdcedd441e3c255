"""Files in which a server keeps what it would rather not compute, or pay for, again.

sqlite_file    one SQLite file that survives what a disk does, shared by the processes of a machine
write_queue    a thread that writes what waits, so that nobody else does
replies        the file of language models' replies
kept_replies   the same off the event loop
stored_ids     which of them are certainly not there, known without a read; by the bits of id_filter
cache_invalidation   a purge, told to the servers that run

What is kept, under which key, is up to `llm` and `embedding`.
"""
