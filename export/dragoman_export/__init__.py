"""From a checkpoint to a bundle: ONNX graphs, their check against PyTorch, and publishing."""
