"""Shared by all parts of the client: addresses, errors, requests, tensors."""
