"""A running server under load."""
