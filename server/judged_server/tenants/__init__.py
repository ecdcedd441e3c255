"""The tenants of a server: their file, their tokens, and who it is that shows a credential."""
