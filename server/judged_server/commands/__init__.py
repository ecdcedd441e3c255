"""The commands of `judged-server` beside serving itself."""
