"""Whose work is done next, how much is let in, and what gives way when that is too much."""
