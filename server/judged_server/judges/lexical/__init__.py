"""The judge `token_overlap` and what it reads in texts."""
