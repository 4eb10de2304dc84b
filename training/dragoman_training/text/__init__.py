"""Parallel text: cleaned, encoded as token ids, and put into batches."""
