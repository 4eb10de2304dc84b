"""Greedy and beam search in PyTorch: the definition of the right tokens."""
