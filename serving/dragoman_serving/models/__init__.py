"""The bundles of a server: routes, loading, dropping, replacing; the direction of a request."""
