"""The measurements of `make gpu-check`."""
