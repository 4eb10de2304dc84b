"""Side-by-side runs against peers; nothing of the project may import from here."""
