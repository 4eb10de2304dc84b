"""How this project was installed, for messages that say how to install more of it."""

from __future__ import annotations

from pathlib import Path

_ROOT = Path(__file__).parents[2]


def install_command(extra: str) -> str:
    """The command that installs what an extra of the project needs."""
    if (_ROOT / "client" / "pyproject.toml").is_file():
        return f"from the checkout, pip install -e ./client -e '.[{extra}]'"
    return f"pip install 'dragoman[{extra}]'"
