"""Reads documents into texts with codes, and writes the translations back in their place."""
