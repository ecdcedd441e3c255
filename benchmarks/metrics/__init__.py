"""Speed of ranking metrics on large runs, compared with pytrec_eval and ranx."""
