"""The judges that need no model or provider of their own, one file a kind, and what they share."""
