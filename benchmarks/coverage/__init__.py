"""How often intervals hold the true value."""
