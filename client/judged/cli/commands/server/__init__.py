"""Commands about servers: what one has and spent, whether it works, and one to try."""
