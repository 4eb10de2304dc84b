"""TensorRT engines of a bundle: what is built, with which numbers, and how it is calibrated."""
