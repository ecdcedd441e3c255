"""The command line, `judged`. Needs the extra [cli]; nothing else of the client imports it.

The modules of `commands` have the commands; what several of them share is in this folder.
"""
