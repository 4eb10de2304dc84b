"""Triton's entry to the model `translate_stream`."""

from serving.triton_models.translate_stream import TranslateStreamModel as TritonPythonModel

__all__ = ["TritonPythonModel"]
