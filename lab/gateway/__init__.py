"""The gateway's speed: its overhead over Triton, and compared with LibreTranslate's server."""
