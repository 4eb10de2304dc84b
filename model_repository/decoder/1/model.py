"""Triton's entry to the bundle's graph of the model's name."""

from dragoman_serving.relay.graph_model import graph_model

TritonPythonModel = graph_model(__file__)
