"""Attacks, faults and overload against a server of the campaign: `python -m tests.campaigns`."""
