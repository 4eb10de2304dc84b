"""Where a user's programs keep what they can make again."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache_folder() -> Path | None:
    """The project's folder among the user's caches; None without a home.

    Source: https://specifications.freedesktop.org/basedir-spec/latest
    """
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        parent = given if given.is_absolute() else Path.home() / ".cache"
    except RuntimeError:
        return None
    return parent / "dragoman"
