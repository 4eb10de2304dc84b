"""Dragoman compared with its peers, with the same weights: in process, imported, served."""
