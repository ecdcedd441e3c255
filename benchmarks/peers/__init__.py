"""Whom we are measured against: their environments, and the programs that run in these."""
