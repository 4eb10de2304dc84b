"""Shared by all readers of documents: segments, gaps, languages, encodings."""
