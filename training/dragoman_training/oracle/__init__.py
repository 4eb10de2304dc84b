"""Reference searches in PyTorch; they define the correct tokens."""
