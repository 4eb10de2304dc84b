"""The engine process, to which Triton's models connect over a Unix socket."""
