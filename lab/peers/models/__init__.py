"""The models that are compared."""
