"""Import models trained with Marian, such as OPUS-MT's, as our checkpoints."""
