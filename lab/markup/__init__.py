"""Markup in translations: how often tags are placed correctly."""
