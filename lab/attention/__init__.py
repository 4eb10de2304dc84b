"""What the attention heads do, and the figures of docs/attention.md."""
