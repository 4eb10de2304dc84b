"""Triton's backend `dragoman`: relays its requests to the engine's process."""
