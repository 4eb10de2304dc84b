"""Stored translation memories."""
