"""The decoding engine: from token ids to token ids.

Each package imports only modules of this one and packages above it in this list.

search      greedy, beam and constrained searches, in Python
compiled    the network and the searches, in C
runtimes    the network on ONNX Runtime and TensorRT
batching    which sentences join which worker, and the workers
"""
