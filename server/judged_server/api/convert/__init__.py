"""Between protobuf messages and domain values, and nothing else."""
