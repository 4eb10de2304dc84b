"""Corpora: splits files into chunks, translates each once, and joins the results."""
