"""Runs commands as if only some extras were installed.

    python -m tests.only_extras train -- clean --config RECIPE

Only the requirements of the extras, from `pyproject.toml`, can be imported; other installed
packages cannot. Without a command, standard input has a JSON list of commands. Each runs in a fork
of this process, and their outcomes are printed as JSON: exit code, standard output and error.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import tomllib
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NoReturn

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).parents[1]
_PROJECTS = {
    "dragoman": REPOSITORY,
    "dragoman-client": REPOSITORY / "client",
    "dragoman-load-test": REPOSITORY / "load_test",
}
_MODULES = {
    "dragoman": {
        *("dragoman", "dragoman_training", "dragoman_export", "dragoman_gateway"),
        "dragoman_serving",
    },
    "dragoman-client": {"dragoman_client", "dragoman_documents", "dragoman_options"},
    "dragoman-load-test": {"dragoman_load_test"},
}
"""The modules of each of our distributions, which are installed from their folders."""


def distributions(name: str, extras: Iterable[str], visited: set[tuple[str, ...]]) -> set[str]:
    """Names of all direct and indirect requirements of a distribution, and its own."""
    for requirement in map(Requirement, _required(name, tuple(extras))):
        marker = requirement.marker
        if marker and not any(marker.evaluate({"extra": extra}) for extra in (*extras, "")):
            continue
        key = (str(canonicalize_name(requirement.name)), *sorted(requirement.extras))
        if key not in visited:
            visited.add(key)
            distributions(key[0], key[1:], visited)
    return {name, *(key[0] for key in visited)}


def _required(name: str, extras: tuple[str, ...]) -> list[str]:
    if name not in _PROJECTS:
        try:
            return requires(name) or []
        except PackageNotFoundError:  # for another machine
            return []
    project = tomllib.loads((_PROJECTS[name] / "pyproject.toml").read_text())["project"]
    optional = project.get("optional-dependencies", {})
    return [*project["dependencies"], *(word for extra in extras for word in optional[extra])]


class _Only:
    """A module finder that hides some modules."""

    def __init__(self, finder: Any, hidden: set[str]) -> None:
        self._finder, self._hidden = finder, hidden

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] in self._hidden:
            return None
        return self._finder.find_spec(name, path, target)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._finder, name)


def hide_all_but(extras: list[str]) -> None:
    """Prevent the import of modules that neither the project nor these extras require."""
    required = distributions("dragoman", extras, set())
    hidden: set[str] = set()
    for module, owners in packages_distributions().items():
        if not required & {str(canonicalize_name(owner)) for owner in owners}:
            hidden.add(module)
    hidden -= sys.stdlib_module_names
    for name, ours in _MODULES.items():
        hidden = hidden - ours if name in required else hidden | ours
    sys.meta_path[:] = [_Only(finder, hidden) for finder in sys.meta_path]


def _run(words: Sequence[str], outputs: Sequence[int]) -> NoReturn:
    from dragoman.cli import main

    for stream, output in enumerate(outputs, start=1):
        os.dup2(output, stream)
    sys.exit(main(words))


def _outcome(words: Sequence[str]) -> tuple[int | None, str, str]:
    with TemporaryFile("w+") as out, TemporaryFile("w+") as err:
        process = multiprocessing.get_context("fork").Process(
            target=_run, args=(words, (out.fileno(), err.fileno()))
        )
        process.start()
        process.join()
        out.seek(0)
        err.seek(0)
        return process.exitcode, out.read(), err.read()


if __name__ == "__main__":
    separator = sys.argv.index("--")
    hide_all_but(sys.argv[1:separator])
    from dragoman.cli import main

    if words := sys.argv[separator + 1 :]:
        sys.exit(main(words))
    print(json.dumps([_outcome(command) for command in json.load(sys.stdin)]))
