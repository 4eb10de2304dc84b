"""Pictures of a model and of what it looks at."""
