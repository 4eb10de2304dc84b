"""Stored glossaries."""
