"""In-flight batching: the queue of sentences, the scheduler, and the workers."""
