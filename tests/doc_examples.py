"""Examples in the pages of the documentation, and their execution."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.conftest import REPOSITORY
from tests.npm_packages import NODE

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_PROGRAMS = {
    "sh": ["bash", "-ec"],
    "python": [sys.executable, "-c"],
    "javascript": [str(NODE), "--input-type=module", "-e"],
}


def blocks(page: str) -> list[tuple[str, str]]:
    """The code blocks of a page, each with its language."""
    return _BLOCK.findall((REPOSITORY / page).read_text(encoding="utf-8"))


def blocks_with(language: str, word: str, page: str) -> list[str]:
    """Code blocks of a language that contain a word."""
    codes = [code for kind, code in blocks(page) if kind == language and word in code]
    assert codes, f"{page} has no {language} block with {word!r}"
    return codes


def run(command: list[str], folder: Path = REPOSITORY, **environment: str) -> str:
    """What a command prints, in a folder and with further environment variables."""
    ran = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=folder,
        env={**os.environ, **environment},
    )
    assert ran.returncode == 0, (command, ran.stdout, ran.stderr)
    return ran.stdout


def run_code(language: str, code: str, folder: Path = REPOSITORY) -> str:
    """What a program in one of the languages prints."""
    return run([*_PROGRAMS[language], code], folder)
