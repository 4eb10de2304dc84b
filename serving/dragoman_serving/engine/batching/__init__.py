"""In-flight batching: which sentences wait, run and leave, and the workers that run them."""
