"""The translation of texts for all protocols: languages, sentences, the cache, the server."""
