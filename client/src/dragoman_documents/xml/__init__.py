"""Reads XML into texts with codes, and writes the translations back."""
