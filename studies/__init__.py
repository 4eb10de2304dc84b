"""Questions that were answered once; docs/ has the answers."""
