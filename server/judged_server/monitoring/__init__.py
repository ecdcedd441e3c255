"""What an operator sees of a running server: metrics for Prometheus, and whether it is ready."""
