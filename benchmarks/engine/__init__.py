"""The engine by itself: options, workers, one step, smaller models."""
