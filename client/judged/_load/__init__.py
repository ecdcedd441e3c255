"""Requests that leave when they are due, and what became of them.

What `judged load` and the benchmarks measure with; the command is in `judged.cli.commands.load`.
"""
