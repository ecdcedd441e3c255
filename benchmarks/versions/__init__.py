"""Comparison of this checkout with another one."""
