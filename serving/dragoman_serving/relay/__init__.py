"""Triton's backend `dragoman`: relays requests to the engine process."""
