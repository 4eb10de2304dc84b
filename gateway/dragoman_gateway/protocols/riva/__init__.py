"""NVIDIA Riva's translation service, over gRPC."""
