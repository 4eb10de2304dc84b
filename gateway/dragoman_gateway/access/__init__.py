"""Who may call: keys, limits, usage, and the share of each client."""
