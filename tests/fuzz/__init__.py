"""Fuzzing: bytes in, and what must hold of whatever comes out.

targets    one function for each reader of what others wrote; raises where a promise is broken
corpora    where each begins: recorded replies, rubrics, requests
__main__   `python -m tests.fuzz`: the targets under atheris, each for some seconds
"""
