"""One benchmark per file. Each prints its measurements, then one line of JSON."""
