"""Texts to vectors, beside other runtimes and the bare products of the model."""
