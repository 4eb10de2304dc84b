"""Markup: places the inline codes of a source text in its translation."""
