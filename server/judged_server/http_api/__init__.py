"""The calls of the contract by HTTP and JSON, for what has no gRPC: a browser, curl, a script."""
