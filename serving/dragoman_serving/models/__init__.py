"""Loading a bundle for serving, and choosing the direction of a request."""
