"""How sure numbers are: distributions, intervals, and what is built on them.

Like the rest of `metrics` these are pure functions over arrays; chance comes from a seed that the
caller gives.
"""
