"""Embedding throughput, compared with other runtimes and bare matrix products."""
