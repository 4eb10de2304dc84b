"""Decoding on a device that has memory of its own: caches stay there, ids and scores travel."""
