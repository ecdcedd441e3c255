"""How sure numbers are: distributions, intervals, and what is built on them.

`agreement` of raters, `calibration` of judges, `comparison` of runs. Pure functions over arrays;
chance comes from a seed that the caller gives.
"""
