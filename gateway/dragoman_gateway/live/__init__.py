"""Live sessions: the translation of a text that grows."""
