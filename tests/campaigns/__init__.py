"""Attacks, faults and overload against a server of one's own: `python -m tests.campaigns`."""
