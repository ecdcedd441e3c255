"""Scheduling: whose work is done next, and how much work is admitted."""
