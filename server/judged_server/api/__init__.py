"""The gRPC layer: the calls of the contract, their interceptor, and their protobuf messages."""
