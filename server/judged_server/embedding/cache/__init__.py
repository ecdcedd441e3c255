"""Vectors that are kept, in memory and in a file."""
