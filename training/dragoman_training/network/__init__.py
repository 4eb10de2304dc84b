"""The Transformer in PyTorch: layers, number formats, attention weights, smaller copies."""
