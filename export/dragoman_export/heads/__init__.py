"""Chooses attention heads that align words, and measures how well they agree."""
