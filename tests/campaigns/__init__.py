"""Attacks, faults and overload against a test server: `python -m tests.campaigns`."""
