"""Scores, confidence, alignments and attention of translations."""
