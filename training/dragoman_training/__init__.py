"""PyTorch: the model, its training, and the reference search that defines a correct translation."""
