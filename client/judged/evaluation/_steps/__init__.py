"""The steps of an evaluation, each by itself."""
