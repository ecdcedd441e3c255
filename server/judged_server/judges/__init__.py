"""The kinds of judges, the catalog that builds them, and the panel of several."""
