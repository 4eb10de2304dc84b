"""Comparisons with peers and other benchmarks; nothing of the project may import from here."""
