"""What the model thinks of a translation: scores, confidence, alignments, attention."""
