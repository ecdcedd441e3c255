"""The operator's providers, models and their keys."""
