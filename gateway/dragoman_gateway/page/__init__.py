"""The web page at `/`, and the picture of attention that it opens."""
