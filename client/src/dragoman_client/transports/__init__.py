"""Connections to servers: gRPC, HTTP, the engine's socket."""
