"""The engine alone: options, workers, one step, smaller models."""
