"""Documents that are translated in the background."""
