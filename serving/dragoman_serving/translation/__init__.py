"""Splits texts into sentences, translates them, and composes the translations of the texts."""
