"""LibreTranslate's protocol."""
