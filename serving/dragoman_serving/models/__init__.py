"""The bundles of a server: loading, unloading, replacing, and the routing of requests."""
