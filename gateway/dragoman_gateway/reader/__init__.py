"""Reads documents and long texts with markup, in processes of its own with limits."""
