"""The gateway's speed: its overhead over Triton."""
