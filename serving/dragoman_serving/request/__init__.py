"""A request's options: read, checked, and turned into a plan for each sentence."""
