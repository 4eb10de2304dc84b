"""Searches in PyTorch: the definition of the right tokens."""
