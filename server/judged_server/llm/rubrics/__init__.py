"""Rubrics: files with the prompts for language models, checked when they are read."""
