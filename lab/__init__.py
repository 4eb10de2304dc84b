"""Measurements; nothing of the project may import from here."""
