"""Markup of translations: where the codes of a source text belong in its translation."""
