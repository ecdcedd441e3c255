"""The command line, `judged`. Needs the extra [cli]; nothing else of the client imports it.

A command is one module: `judge`, `evaluate`, `metrics`, `judges`. What they share is in
`options`, `parameters`, `connection`, `problems`, `output` and `tables`.
"""
