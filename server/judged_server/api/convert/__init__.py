"""Converts protobuf messages to domain values and back."""
