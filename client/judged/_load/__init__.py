"""Load generator: sends requests when they are due, and records their outcomes.

Used by `judged load` (`judged.cli.commands.load`) and by the benchmarks.
"""
