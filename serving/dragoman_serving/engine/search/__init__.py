"""Searches in Python: greedy, beam, and those under constraints."""
