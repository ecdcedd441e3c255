"""Models on disk: fetched, checked, described, opened."""
