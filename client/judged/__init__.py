"""The thin client of the judge daemon."""
