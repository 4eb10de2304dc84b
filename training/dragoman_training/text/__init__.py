"""Parallel text: fetched, cleaned, encoded as token ids, and put into batches."""
