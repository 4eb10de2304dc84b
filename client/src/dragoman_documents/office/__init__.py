"""Reads Office files and books: ZIP archives whose members are XML."""
