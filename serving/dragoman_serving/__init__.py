"""The decoding engine, the Triton models and the launcher. Nothing here imports torch."""
