"""Translation memories."""
