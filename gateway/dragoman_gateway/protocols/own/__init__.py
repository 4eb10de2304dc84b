"""The project's own API, `/api/v1`."""
