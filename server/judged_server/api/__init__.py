"""All that knows gRPC and protobuf: the calls, what surrounds them, and their messages."""
