"""The protocol of LibreTranslate."""
