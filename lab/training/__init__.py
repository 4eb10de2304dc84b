"""Speed and curves of training."""
