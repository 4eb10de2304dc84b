"""Public text: a registry of corpora, and their download."""
