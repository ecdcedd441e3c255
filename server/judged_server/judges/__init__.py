"""Judges, and the catalog that builds them."""
