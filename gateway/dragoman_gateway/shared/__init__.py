"""What all protocols share, in one object, and its metrics."""
