"""Requests to a server under load, and their answers."""
