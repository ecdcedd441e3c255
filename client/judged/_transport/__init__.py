"""The transport: channels and connections, deadlines, retries, and errors of failed calls."""
