"""Reads Markdown."""
