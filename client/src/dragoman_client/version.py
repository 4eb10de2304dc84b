"""The client's version, and the servers it works with.

Before 1.0, client and server work together if their first two numbers agree, in every combination
of patch releases; from 1.0 on, if the first number does. docs/upgrading.md has the whole policy.
"""

from __future__ import annotations

__version__ = "0.1.0"


def work_together(one: str, other: str) -> bool:
    """Whether a client and a server of these versions, such as "0.1.2", belong together."""
    return series(one) == series(other)


def series(version: str) -> str:
    """The part of a version that must agree: "0.1" of "0.1.2", "2" of "2.3.1"."""
    major, _, rest = version.partition(".")
    return f"0.{rest.partition('.')[0]}" if major == "0" else major
