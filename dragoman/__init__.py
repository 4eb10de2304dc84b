"""The kernel of Dragoman that all other parts share, and the `dragoman` command."""

__version__ = "0.1.0"
