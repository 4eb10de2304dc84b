"""Other processes of this machine, by what Linux says of them."""

from __future__ import annotations

from pathlib import Path

_PROC = Path("/proc")
_DEAD = ("Z", "X")


def children(pid: int) -> list[int]:
    """The processes that a process has started and that live."""
    found = (int(path.name) for path in _PROC.iterdir() if path.name.isdigit())
    return [child for child in found if _parent(child) == pid and alive(child)]


def alive(pid: int) -> bool:
    """Whether a process runs or could run."""
    fields = _fields(pid)
    return bool(fields) and fields[0] not in _DEAD


def _parent(pid: int) -> int | None:
    fields = _fields(pid)
    return int(fields[1]) if fields else None


def _fields(pid: int) -> list[str]:
    """State, parent and so on: what stands in `stat` behind the name; nothing if it has gone."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()
