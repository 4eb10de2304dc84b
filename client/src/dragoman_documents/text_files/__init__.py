"""Readers of text files, such as subtitles and Markdown."""
