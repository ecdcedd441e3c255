"""Statistics: intervals, tests, agreement of raters, calibration of judges, comparison of runs.

Pure functions over arrays; random numbers come from a seed that the caller gives.
"""
