"""Tests of the protocol of chat completions."""
