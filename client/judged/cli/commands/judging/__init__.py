"""Commands that ask judges and language models."""
