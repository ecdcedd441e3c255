"""Overhead of calls to language models, against the vendor's SDK and a bare loop."""
