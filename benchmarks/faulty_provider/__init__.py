"""What callers get from an unwell provider, here and elsewhere."""
