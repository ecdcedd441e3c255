"""What is left of the service when more is asked of it than it can do."""
