"""Reads and checks a request's options, and makes a plan for its sentences."""
