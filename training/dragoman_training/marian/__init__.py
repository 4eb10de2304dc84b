"""Models that were trained with Marian, such as OPUS-MT's, as checkpoints of ours."""
