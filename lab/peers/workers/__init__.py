"""Contenders in processes of their own, used over pipes."""
