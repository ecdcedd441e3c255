"""Between the values of `types.statistics` and protobuf messages."""
