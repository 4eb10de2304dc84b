"""Tests of the protocols of browser extensions."""
