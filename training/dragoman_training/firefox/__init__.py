"""Firefox's translation models, which Marian trained as students: downloads, files, conversion."""
