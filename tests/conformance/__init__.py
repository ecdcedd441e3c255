"""Comparisons with published libraries that define what the results should be."""
