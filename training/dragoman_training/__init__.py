"""PyTorch: the model, its training, and the search that defines what a right translation is."""
