"""Starts, watches and stops the engine process, Triton and the gateway."""
