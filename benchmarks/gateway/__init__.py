"""The gateway's speed: over Triton alone, and beside LibreTranslate's own server."""
