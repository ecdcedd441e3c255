"""The wire: channels and connections, deadlines and the retry loop, and what a failure means."""
