"""How data sets and results stand in files, one module a format."""
