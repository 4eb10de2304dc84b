"""Which of several bundles translates a request: by its languages, or by the name that it gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as brief
from typing import Any

from dragoman_options.languages import fold_language
from dragoman_options.table import AUTO

from dragoman.kernel.errors import InvalidRequest, UsageError
from dragoman.kernel.manifest import Manifest
from dragoman_serving.models.directions import Directions

_MOST_KNOWN = 1024
"""Answers that are remembered."""


@dataclass(frozen=True, eq=False)
class Bundle:
    """A bundle that can be served.

    Attributes:
        name: by which requests may choose it.
        folder: where it lies, without symbolic links.
        manifest: its manifest; its files need not be checked yet.
    """

    name: str
    folder: Path
    manifest: Manifest

    def direction_length(self, source: str | None, target: str | None) -> int | None:
        """Letters of the bundle's codes for two languages; None: it has no such direction.

        More letters are a closer fit: a request for `pt-BR` prefers `pt-br` to `pt`.
        """
        known = self.manifest.languages
        src = source and fold_language(source, known)
        tgt = target and fold_language(target, known)
        for direction in self.manifest.all_directions:
            if (source is None or src == direction[0]) and (target is None or tgt == direction[1]):
                return len(src or "") + len(tgt or "")
        return None


class Routes:
    """The bundles of a server, in the order in which they were given. It does not change."""

    def __init__(self, bundles: Sequence[Bundle]) -> None:
        """Take the bundles, the first of which is the default.

        Raises:
            UsageError: two have the same name.
        """
        self.bundles = tuple(bundles)
        self._by_name = {bundle.name: bundle for bundle in bundles}
        if len(self._by_name) < len(self.bundles):
            names = [bundle.name for bundle in bundles]
            twice = next(name for name in names if names.count(name) > 1)
            folders = ", ".join(str(one.folder) for one in bundles if one.name == twice)
            raise UsageError(f"two models are named {twice!r}: rename a folder of {folders}")
        self._together = Directions(self.languages, self.directions)
        self._known: dict[tuple[Any, ...], tuple[Bundle, ...]] = {}

    @property
    def languages(self) -> tuple[str, ...]:
        """Of all bundles."""
        return tuple(dict.fromkeys(one for b in self.bundles for one in b.manifest.languages))

    @property
    def directions(self) -> tuple[tuple[str, ...], ...]:
        """Of all bundles."""
        return tuple(dict.fromkeys(one for b in self.bundles for one in b.manifest.all_directions))

    def choose(
        self,
        source: str | None,
        target: str | None,
        name: str | None = None,
        is_usable: Callable[[Bundle], bool] = lambda _: True,
    ) -> Bundle:
        """The bundle for a request.

        Of several with the direction, it is the one that is named, else the first that is usable,
        else the first.

        Args:
            source: language that the request names.
            target: language that the request names.
            name: of a bundle, if the request gives one.
            is_usable: whether a bundle can be loaded, as far as is known.

        Raises:
            InvalidRequest: there is none.
        """
        key = (source, target, name)
        fitting = self._known.get(key)
        if fitting is None:
            fitting = self._fitting(source, target, name)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = fitting
        return next(filter(is_usable, fitting), fitting[0])

    def choose_for(
        self,
        texts: Sequence[str],
        source: str | None,
        target: str | None,
        name: str | None = None,
        is_usable: Callable[[Bundle], bool] = lambda _: True,
    ) -> Bundle:
        """As `choose`, where the language of the texts may be to be detected.

        Raises:
            InvalidRequest: there is none, or the texts are for several.
        """
        if source is None or source.strip().lower() != AUTO:
            return self.choose(source, target, name, is_usable)
        if len(self._named(name)) == 1:
            return self._named(name)[0]
        directions = self._together.of_texts(texts, AUTO, target)
        found = {(src, tgt): found for src, tgt, found in directions if found and found.language}
        chosen = {self.choose(src, target, name, is_usable) for src, _ in found}
        if len(chosen) > 1:
            languages = ", ".join(src for src, _ in found)
            raise InvalidRequest(
                f"the texts are of languages that different models translate ({languages}): "
                "send those of each language in a request of their own"
            )
        return chosen.pop() if chosen else self.choose(None, target, name, is_usable)

    def _named(self, name: str | None) -> tuple[Bundle, ...]:
        if name is None:
            return self.bundles
        if name not in self._by_name:
            raise InvalidRequest(f"model is {brief(name)}: there are {', '.join(self._by_name)}")
        return (self._by_name[name],)

    def _fitting(
        self, source: str | None, target: str | None, name: str | None
    ) -> tuple[Bundle, ...]:
        candidates = self._named(name)
        if len(candidates) == 1:  # it says itself what it lacks
            return candidates
        lengths = [bundle.direction_length(source, target) for bundle in candidates]
        longest = max((length for length in lengths if length is not None), default=None)
        if longest is None:
            raise self._unknown(source, target, name)
        fits = zip(candidates, lengths, strict=True)
        return tuple(bundle for bundle, length in fits if length == longest)

    def _unknown(self, source: str | None, target: str | None, name: str | None) -> InvalidRequest:
        asked = f" from {brief(source)}" if source else ""
        asked += f" into {brief(target)}" if target else ""
        known = dict.fromkeys(
            "-".join(direction)
            for bundle in self._named(name)
            for direction in bundle.manifest.all_directions
        )
        return InvalidRequest(f"no model translates{asked}: there are {', '.join(known)}")


def read_bundles(folders: Sequence[Path]) -> list[Bundle]:
    """Bundles in folders; see `read_bundle`."""
    return [read_bundle(folder) for folder in folders]


def read_bundle(folder: Path) -> Bundle:
    """The bundle in a folder, named as the folder, or as a symbolic link to it.

    What the link names now is what is loaded, also after it names something else.

    Raises:
        UsageError: the folder holds none.
    """
    return Bundle(folder.name, folder.resolve(), Manifest.read(folder))
