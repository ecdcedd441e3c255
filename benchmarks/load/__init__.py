"""Requests that leave when they are due, and what became of them."""
