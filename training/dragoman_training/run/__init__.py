"""A training run from its first step to its last checkpoint, and what it measures on the way."""
