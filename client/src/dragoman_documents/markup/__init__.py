"""Splits documents with markup into text segments and the bytes between them."""
