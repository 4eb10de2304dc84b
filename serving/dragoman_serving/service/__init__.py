"""The engine's own process, which Triton's models reach over a Unix socket."""
