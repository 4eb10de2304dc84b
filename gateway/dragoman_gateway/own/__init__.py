"""The protocol of the project itself, /api/v1."""
