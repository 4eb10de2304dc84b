"""Source and target language of each text of a request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from reprlib import repr as brief

from dragoman_options.languages import fold_language
from dragoman_options.table import AUTO

from dragoman.kernel.errors import InvalidRequest
from dragoman.kernel.texts.language import Detected, OtherLanguage, detect_source

Direction = tuple[str, str, Detected | None]
"""Source and target language, and the detected language if detection was requested."""


_Pair = tuple[str | None, str | None]
_MOST_RESOLVED = 256
"""Pairs of requested languages that are cached."""
_UNDETECTED = Detected("", 0.0)
"""The language of a text with nothing to translate."""


class Directions:
    """The directions that one or more models were trained for."""

    def __init__(self, languages: Sequence[str], directions: Sequence[tuple[str, ...]]) -> None:
        """Store languages, and pairs of source and target language."""
        self._known, self._all = languages, directions
        self._resolved: dict[_Pair, tuple[str | None, str | None, tuple[str, str]]] = {}
        """Requested languages, as codes of the model, and the usual direction between them."""
        self.targets = tuple(dict.fromkeys(target for _, target in directions))
        """All target languages."""

    def of_texts(
        self, texts: Sequence[str], source: str | None, target: str | None, first: int = 0
    ) -> Iterator[Direction]:
        """Yields the direction of each text; a text's language is detected when its turn comes.

        Args:
            texts: some texts of a request.
            source: requested source language, or `AUTO`; see `fold_language` for both languages.
            target: requested target language.
            first: index of the first of the texts, for messages.

        Raises:
            InvalidRequest: the model does not have the language or the direction.
        """
        named = source, target
        if (resolved := self._resolved.get(named)) is None:
            source = self._folded("source_language", source, (*self._known, AUTO))
            target = self._folded("target_language", target, self._known)
            resolved = source, target, self._languages(source, target)
            if len(self._resolved) >= _MOST_RESOLVED:
                self._resolved.clear()
            self._resolved[named] = resolved
        source, target, languages = resolved
        for index, text in enumerate(texts, start=first):
            if source != AUTO:
                yield (*languages, None)
            elif text.strip():
                yield self._detected(index, text, target)
            else:
                yield (*languages, _UNDETECTED)

    def _detected(self, index: int, text: str, target: str | None) -> Direction:
        """Detects the direction of a text.

        Only languages that the model translates from, into the target if it is given, are
        candidates. The detected language is the target if the text is in it already.
        """
        sources = list(dict.fromkeys(src for src, tgt in self._all if target in (None, tgt)))
        try:
            detected = detect_source(text, sources, target)
        except OtherLanguage as error:
            if error.found.language in self._known:
                raise self._untrained(error.found.language, target, index) from error
            fix = "if this is wrong, give source_language"
            message = f"text {index} {error}; {fix}"
            raise InvalidRequest(message, "language", "source_language", index) from error
        source = None if detected.language == target else detected.language
        return (*self._trained(source, target), detected)

    def _folded(self, name: str, given: str | None, known: Sequence[str]) -> str | None:
        if given is None:
            return None
        if (language := fold_language(given, known)) is None:
            raise InvalidRequest(
                f"{name} {brief(given)} is unknown; known: {', '.join(self._known)}",
                "language",
                name,
            )
        return language

    def _languages(self, source: str | None, target: str | None) -> tuple[str, str]:
        if source == AUTO:
            return self._trained(None, target)  # the language of each text is detected later
        if source is not None and source == target:
            raise InvalidRequest(
                f"source_language and target_language are both {source!r}", "language"
            )
        return self._trained(source, target)

    def _trained(self, source: str | None, target: str | None) -> tuple[str, str]:
        """The first direction of the model that fits."""
        for src, tgt in self._all:
            if source in (None, src) and target in (None, tgt):
                return src, tgt
        raise self._untrained(source, target)

    def _untrained(
        self, source: str | None, target: str | None, index: int | None = None
    ) -> InvalidRequest:
        trained = ", ".join("-".join(direction) for direction in self._all)
        requested = f" from {source!r}" if source else ""
        requested += f" into {target!r}" if target else ""
        where = "" if index is None else f"text {index}: "
        message = f"{where}the model does not translate{requested}: it has {trained}"
        return InvalidRequest(message, "language", text_index=index)
