"""HTTP for all protocols: bodies, errors, headers, the access log."""
