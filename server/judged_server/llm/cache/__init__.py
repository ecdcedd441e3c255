"""Replies of language models that are kept, and the key they are kept under."""
