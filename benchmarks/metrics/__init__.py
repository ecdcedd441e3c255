"""Metrics of large runs, beside pytrec_eval and ranx."""
