"""gRPC for its protocols: the server, keys, limits of messages, errors, metrics and spans."""
