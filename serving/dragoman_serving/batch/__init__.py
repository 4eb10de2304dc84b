"""Corpora: files cut into chunks, translated once each, and joined again."""
