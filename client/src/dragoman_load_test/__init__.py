"""Load tests of a translation server: how much it does, how long each waits, and what it can hold.

Command: `dragoman load-test`. May import `dragoman_client`, whose addresses, access, options and
errors it shares; nothing else of ours.
"""
