"""Decoding on a device with its own memory: caches stay there, ids and scores are copied."""
