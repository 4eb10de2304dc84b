"""Markup in translations: how often tags are put at the right place."""
