"""The calls of the contract over HTTP and JSON, for clients without gRPC: browsers, curl."""
