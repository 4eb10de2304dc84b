"""Triton's entry to the model `translate`."""

from serving.triton_models.translate import TranslateModel as TritonPythonModel

__all__ = ["TritonPythonModel"]
