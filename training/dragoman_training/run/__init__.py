"""A training run, from its first step to its last checkpoint, and its measurements."""
