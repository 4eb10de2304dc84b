"""Parallel text: downloaded, cleaned, encoded as token ids, and put into batches."""
