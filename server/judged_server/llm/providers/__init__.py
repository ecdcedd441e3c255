"""The dialects of providers; `fake` sends no requests, but answers from a file."""
