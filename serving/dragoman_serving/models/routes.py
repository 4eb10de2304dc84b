"""Chooses the bundle of a request, by its languages or by the requested name.

If no bundle translates between the languages, two bundles do through a pivot language, if one is
set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from reprlib import repr as brief
from typing import Any

from dragoman_options.languages import closeness, fold_language, language_fallbacks
from dragoman_options.table import AUTO

from dragoman.kernel.errors import InvalidRequest, UsageError
from dragoman.kernel.manifest import Manifest
from dragoman.kernel.texts.language import Detected
from dragoman_serving.models.directions import Directions

IN_REPOSITORY = "bundle"
"""Name of the bundle's folder in a version of Triton's model."""
_MOST_KNOWN = 1024
"""Number of routes that are cached."""


@dataclass(frozen=True, eq=False)
class Bundle:
    """A bundle that can be served.

    Attributes:
        name: name by which requests may choose it.
        folder: its folder, without symbolic links.
        manifest: its manifest; its files need not be checked yet.
    """

    name: str
    folder: Path
    manifest: Manifest

    def closeness(self, source: str | None, target: str | None) -> int:
        """Returns how closely the codes of the bundle's direction match two languages.

        A request for `pt-BR` prefers a bundle with `pt-br` to one with `pt`. -1: it has no such
        direction.
        """
        known = self.manifest.languages
        src = source and fold_language(source, known)
        tgt = target and fold_language(target, known)
        for direction in self.manifest.all_directions:
            if (source is None or src == direction[0]) and (target is None or tgt == direction[1]):
                return sum(
                    closeness(code, match)
                    for code, match in ((source, src), (target, tgt))
                    if code and match
                )
        return -1


@dataclass(frozen=True)
class Route:
    """The bundles that translate a request.

    Attributes:
        bundles: one bundle; through a pivot language one for each leg, which may be the same.
        languages: source, pivot and target language; empty: a direct route.
        detected: the detected language of each text, for a pivot route with detection.
    """

    bundles: tuple[Bundle, ...]
    languages: tuple[str, ...] = ()
    detected: tuple[Detected | None, ...] = ()

    def language_fallbacks(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        """The codes of a request that stand for others of the bundles."""
        given = (options.get("source_language"), options.get("target_language"))
        codes = [code for code in given if isinstance(code, str)]
        if self._languages.issuperset(codes):
            return ()
        known = [code for bundle in self.bundles for code in bundle.manifest.languages]
        return language_fallbacks(codes, known)

    @cached_property
    def _languages(self) -> frozenset[str]:
        """The codes of all bundles."""
        return frozenset(code for bundle in self.bundles for code in bundle.manifest.languages)

    @property
    def via(self) -> str | None:
        """The pivot language."""
        return self.languages[1] if self.languages else None


@dataclass(frozen=True)
class ServedPair:
    """A direction, with the bundles that translate it, or the bundle of each leg."""

    source: str
    target: str
    models: tuple[str, ...]
    via: str | None = None


def _any(_bundle: Bundle) -> bool:
    return True


class Routes:
    """The bundles of a server, in the given order. Immutable."""

    def __init__(self, bundles: Sequence[Bundle], pivot: str | None = None) -> None:
        """Store the bundles; the first one is the default.

        Args:
            bundles: bundles of the server.
            pivot: the pivot language; None: no pivot translation.

        Raises:
            UsageError: two have the same name.
        """
        self.bundles = tuple(bundles)
        self.languages = tuple(
            dict.fromkeys(language for b in bundles for language in b.manifest.languages)
        )
        """Languages of all bundles."""
        self.pivot = fold_language(pivot, self.languages) if pivot else None
        """The code of the pivot language; also None if no bundle has it."""
        self._by_name = {bundle.name: bundle for bundle in bundles}
        if len(self._by_name) < len(self.bundles):
            names = [bundle.name for bundle in bundles]
            twice = next(name for name in names if names.count(name) > 1)
            folders = ", ".join(str(bundle.folder) for bundle in bundles if bundle.name == twice)
            raise UsageError(f"two models are named {twice!r}: rename a folder of {folders}")
        direct = self._direct_pairs()
        self.pairs = (*direct, *self._pivoted_pairs(direct))
        """All pairs that are translated, direct ones first."""
        self.directions = tuple((pair.source, pair.target) for pair in self.pairs)
        """Directions of all pairs."""
        self._together = Directions(self.languages, self.directions)
        self._known: dict[tuple[str | None, str | None], tuple[Route, ...]] = {}
        self._of_name: dict[str, Routes] = {}

    def choose(
        self,
        source: str | None,
        target: str | None,
        name: str | None = None,
        is_usable: Callable[[Bundle], bool] = _any,
    ) -> Route:
        """Returns the route of a request.

        Among several bundles with the direction, it is the named one, else the first usable one,
        else the first. If no bundle has the direction, the route goes through the pivot language.

        Args:
            source: requested source language.
            target: requested target language.
            name: requested bundle, if any.
            is_usable: whether a bundle can be loaded, as far as is known.

        Raises:
            InvalidRequest: there is no route.
        """
        if name is not None:
            return self._named(name).choose(source, target)
        key = (source, target)
        fitting = self._known.get(key)
        if fitting is None:
            fitting = self._fitting(source, target)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = fitting
        if len(fitting) == 1:
            return fitting[0]
        usable = (route for route in fitting if all(map(is_usable, route.bundles)))
        return next(usable, fitting[0])

    def choose_for(
        self,
        texts: Sequence[str],
        source: str | None,
        target: str | None,
        name: str | None = None,
        is_usable: Callable[[Bundle], bool] = _any,
    ) -> Route:
        """As `choose`, with detection of the texts' language if the source language is `AUTO`.

        Raises:
            InvalidRequest: there is no route, or the texts need different ones.
        """
        if source is None or source.strip().lower() != AUTO:
            return self.choose(source, target, name, is_usable)
        if name is not None:
            return self._named(name).choose_for(texts, source, target)
        if len(self.bundles) == 1 and self.pivot is None:
            return Route(self.bundles)
        detected = [detection for _, _, detection in self._together.of_texts(texts, AUTO, target)]
        sources = dict.fromkeys(
            detection.language for detection in detected if detection and detection.language
        )
        chosen = {self.choose(src, target, None, is_usable) for src in sources}
        if len(chosen) > 1:
            raise InvalidRequest(
                "the texts are in languages of different models "
                f"({', '.join(sources)}): send the texts of each language in a separate request",
                "language",
            )
        if not chosen:
            return self.choose(None, target, None, is_usable)
        route = chosen.pop()
        return replace(route, detected=tuple(detected)) if route.languages else route

    def find(self, name: str) -> Bundle:
        """Returns the bundle with a name, or else with a direct direction such as en-de.

        Raises:
            UsageError: there is no such bundle.
        """
        if name in self._by_name:
            return self._by_name[name]
        source, _, target = name.partition("-")
        if not any(
            (pair.source, pair.target) == (source, target) for pair in self.pairs if not pair.via
        ):
            direct = ("-".join((pair.source, pair.target)) for pair in self.pairs if not pair.via)
            known = ", ".join(dict.fromkeys((*self._by_name, *direct)))
            raise UsageError(f"--preload {name}: neither a model nor a direction; known: {known}")
        return self.choose(source, target).bundles[0]

    def _named(self, name: str) -> Routes:
        """The routes of one bundle."""
        if name not in self._by_name:
            raise InvalidRequest(
                f"model is {brief(name)}: there are {', '.join(self._by_name)}", option="model"
            )
        if name not in self._of_name:
            self._of_name[name] = Routes((self._by_name[name],), self.pivot)
        return self._of_name[name]

    def _fitting(self, source: str | None, target: str | None) -> tuple[Route, ...]:
        closest = self._closest(source, target)
        if not closest and (joined := self._through_pivot(source, target)):
            return joined
        if len(self.bundles) == 1:  # the bundle itself refuses unknown languages
            closest = list(self.bundles)
        if not closest:
            raise self._unknown(source, target)
        return tuple(Route((bundle,)) for bundle in closest)

    def _closest(self, source: str | None, target: str | None) -> list[Bundle]:
        """The bundles that have a direction, with the most closely matching codes."""
        close = [bundle.closeness(source, target) for bundle in self.bundles]
        closest = max(close, default=-1)
        fits = zip(self.bundles, close, strict=True)
        return [bundle for bundle, value in fits if value == closest >= 0]

    def _through_pivot(self, source: str | None, target: str | None) -> tuple[Route, ...]:
        if self.pivot is None or source is None or target is None:
            return ()
        if fold_language(source, self.languages) == fold_language(target, self.languages):
            return ()
        return tuple(
            Route((first, second), (source, self.pivot, target))
            for first in self._closest(source, self.pivot)
            for second in self._closest(self.pivot, target)
        )

    def _direct_pairs(self) -> list[ServedPair]:
        models: dict[tuple[str, str], list[str]] = {}
        for bundle in self.bundles:
            for source, target in bundle.manifest.all_directions:
                models.setdefault((source, target), []).append(bundle.name)
        return [ServedPair(*direction, tuple(names)) for direction, names in models.items()]

    def _pivoted_pairs(self, direct: Sequence[ServedPair]) -> list[ServedPair]:
        known = {(pair.source, pair.target) for pair in direct}
        return [
            ServedPair(first.source, second.target, (first.models[0], second.models[0]), self.pivot)
            for first in direct
            if first.target == self.pivot
            for second in direct
            if second.source == self.pivot
            and first.source != second.target
            and (first.source, second.target) not in known
        ]

    def _unknown(self, source: str | None, target: str | None) -> InvalidRequest:
        requested = f" from {brief(source)}" if source else ""
        requested += f" into {brief(target)}" if target else ""
        known = ", ".join(map("-".join, self.directions))
        return InvalidRequest(f"no model translates{requested}: there are {known}", "language")


def check_names(routes: Routes, pivot: str | None, preload: Sequence[str]) -> None:
    """Check that the languages and bundles in settings exist.

    Raises:
        UsageError: one does not exist; the message names it.
    """
    if pivot is not None and routes.pivot is None:
        known = ", ".join(routes.languages)
        raise UsageError(f"--pivot {pivot}: no model has this language; known: {known}")
    for name in preload:
        routes.find(name)


def read_bundles(folders: Sequence[Path]) -> list[Bundle]:
    """Reads bundles from folders; see `read_bundle`."""
    return [read_bundle(folder) for folder in folders]


def read_bundle(folder: Path) -> Bundle:
    """Reads the bundle in a folder. Its name is that of the folder, or of a symbolic link to it.

    A link is resolved now, so the same bundle is loaded even if the link changes later. In a Triton
    repository, where the folder's name is always the same, the name is made of the languages:
    en-de-fr.

    Raises:
        UsageError: the folder holds no bundle.
    """
    manifest = Manifest.read(folder)
    name = "-".join(manifest.languages) if folder.name == IN_REPOSITORY else folder.name
    return Bundle(name, folder.resolve(), manifest)
