"""What make gpu-check measures."""
