"""The decoding engine, the Triton models and the launcher. Never torch."""
