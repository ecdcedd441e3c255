"""One file a call, in domain values: what is judged, measured or estimated, in which order."""
