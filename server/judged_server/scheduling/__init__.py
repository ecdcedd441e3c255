"""Whose work is done next, and how much is let in."""
