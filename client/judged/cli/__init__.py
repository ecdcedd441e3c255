"""The command line, `judged`. Needs the extra [cli]; nothing else of the client imports it.

A command is one module of `commands`. What they share is in `options`, `inputs` and `output`.
"""
