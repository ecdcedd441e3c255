"""The edge: protobuf and gRPC in, domain values out, and the way back."""
