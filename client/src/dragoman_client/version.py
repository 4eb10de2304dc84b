"""The client's version, and its compatibility with servers.

Before 1.0, client and server are compatible if the first two numbers of their versions are equal;
patch releases can be combined freely. From 1.0 on, only the first number must be equal.
docs/upgrading.md has the whole policy.
"""

from __future__ import annotations

__version__ = "0.1.0"


def work_together(version: str, other: str) -> bool:
    """Whether a client and a server of these versions, such as "0.1.2", are compatible."""
    return series(version) == series(other)


def series(version: str) -> str:
    """Returns the part of a version that must be equal: "0.1" of "0.1.2", "2" of "2.3.1"."""
    major, _, rest = version.partition(".")
    return f"0.{rest.partition('.')[0]}" if major == "0" else major
