"""From a checkpoint to a bundle: ONNX graphs, their checks against PyTorch, and publishing."""
