"""Which attention heads align words, and how well they agree."""
