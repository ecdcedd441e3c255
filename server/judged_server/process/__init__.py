"""The process that a server is: its memory, its garbage, its event loop."""
