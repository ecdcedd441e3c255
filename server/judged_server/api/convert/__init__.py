"""Converts protobuf messages to domain values and back, and nothing else."""
