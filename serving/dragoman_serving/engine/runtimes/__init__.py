"""Runtimes for the network: ONNX Runtime on a CPU, ONNX Runtime and TensorRT on a GPU."""
