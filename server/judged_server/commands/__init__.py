"""The commands of `judged-server` besides serving."""
