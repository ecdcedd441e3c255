"""Cases of bad requests to measure and to compare."""
