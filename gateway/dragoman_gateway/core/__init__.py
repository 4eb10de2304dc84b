"""The core that all protocols share: callers, limits, translations, glossaries, document jobs."""
