"""One file a question. Each prints what it measured and ends with one line of JSON."""
