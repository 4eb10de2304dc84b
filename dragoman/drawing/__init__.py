"""Figures of a model's attention and architecture."""
