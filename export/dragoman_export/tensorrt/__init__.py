"""TensorRT engines of a bundle: how they are built, calibrated and quantized."""
