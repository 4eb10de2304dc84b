"""What every protocol shares: callers, limits, translations, glossaries, document jobs."""
