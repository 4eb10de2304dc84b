"""Readers of the files in which programs keep their messages."""
