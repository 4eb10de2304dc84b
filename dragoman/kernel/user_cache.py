"""The project's folder in the user's cache."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache_folder() -> Path | None:
    """Returns the project's folder in the user's cache; None without a home directory.

    Source: https://specifications.freedesktop.org/basedir-spec/latest
    """
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        parent = given if given.is_absolute() else Path.home() / ".cache"
    except RuntimeError:
        return None
    return parent / "dragoman"
