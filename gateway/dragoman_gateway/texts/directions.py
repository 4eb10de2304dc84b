"""Determines the source and target language of each text of a request.

The rules are those of the server (`dragoman_serving.models.directions`). A request that the server
would refuse is sent to it unchanged.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from reprlib import repr as brief
from typing import Any

from dragoman_client import ServerInfo
from dragoman_options.languages import TargetMark, fold_language, language_fallbacks
from dragoman_options.refusal import Refusal
from dragoman_options.table import AUTO

from dragoman.kernel.errors import DragomanError
from dragoman.kernel.texts.language import Detected, OtherLanguage, detect_source
from dragoman_gateway.core.errors import InvalidInput
from dragoman_gateway.texts.languages import untranslated

_UNDETECTED = Detected("", 0.0)
"""The result for a text with nothing to translate."""


@dataclass(frozen=True, slots=True)
class Direction:
    """Source and target language, with the detected language if detection was requested."""

    languages: tuple[str, str]
    detected: Detected | None = None
    fallbacks: tuple[str, ...] = ()
    """See `language_fallbacks`."""

    @property
    def stays(self) -> bool:
        """Whether the text is in the target language already, and is returned unchanged."""
        return self.detected is not None and self.detected.language == self.languages[1]


class Directions:
    """The directions that are possible for a request.

    Attributes:
        detects: whether to detect the source language of each text.
    """

    def __init__(self, info: ServerInfo, options: Mapping[str, Any]) -> None:
        """Read the languages in the options of a request."""
        source, target = options.get("source_language"), options.get("target_language")
        self._named = source, target
        self._all = info.directions
        self._fallbacks = language_fallbacks(self._named, info.languages)
        self._source = fold_language(source, (*info.languages, AUTO)) if source else None
        self._target = fold_language(target, info.languages) if target else None
        is_known = (source is None or self._source is not None) and (
            target is None or self._target is not None
        )
        self.detects = self._source == AUTO
        given = None if self.detects else self._source
        self._usual = self._trained(given, self._target) if is_known else None

    @functools.cached_property
    def _targets(self) -> list[str]:
        return list(dict.fromkeys(target for _, target in self._all))

    def check(self) -> tuple[str, str]:
        """Refuse languages that the server does not translate between, independently of the text.

        Returns:
            Source and target language of a text, unless it names or shows others.

        Raises:
            InvalidInput: the message names the languages, and the available directions.
        """
        if self._usual is None:
            requested = f" from {brief(self._named[0])}" if self._named[0] else ""
            requested += f" into {brief(self._named[1])}" if self._named[1] else ""
            known = ", ".join(map("-".join, self._all))
            message = f"the server does not translate{requested}: it translates {known}"
            raise InvalidInput(message, "language")
        return self._usual.languages

    def of(self, text: str) -> Direction | None:
        """Returns the direction of a text; None: the server will refuse the request."""
        mark = None
        if self._named[1] is None:
            mark = TargetMark.of(text, self._targets)
        if mark is not None and mark.language is None:
            return None
        try:
            return self._detected(text if mark is None else mark.rest, mark and mark.language)
        except DragomanError:
            return None

    def of_document(self, sample: str, source_field: str) -> Direction:
        """Returns the direction of a document.

        Args:
            sample: the beginning of the document.
            source_field: the protocol's name of the source language, for messages.

        Raises:
            InvalidInput: the message names the detected language, and those of the server.
        """
        self.check()
        try:
            direction = self._detected(sample)
        except OtherLanguage as error:
            raise untranslated(
                "the document",
                error.found.language,
                self._target,
                self._sources(self._target),
                source_field,
            ) from error
        except DragomanError as error:
            raise InvalidInput(*Refusal.of(error)) from error
        assert direction is not None
        if direction.stays:
            raise InvalidInput(
                f"the document seems to be in {self._target!r} already, the target language; "
                f"if this is wrong, give {source_field}",
                "language",
                "source_language",
            )
        return direction

    def _sources(self, target: str | None) -> list[str]:
        """Returns the languages that are translated into a target language."""
        return list(dict.fromkeys(src for src, tgt in self._all if target in (None, tgt)))

    def _detected(self, text: str, marked: str | None = None) -> Direction | None:
        """`of`, which raises a `DragomanError` if no language of the server is detected."""
        target = marked or self._target
        usual = self._usual
        if usual is not None and marked:
            usual = self._trained(None if self.detects else self._source, marked)
        if usual is None or not self.detects:
            return usual
        if not text.strip():
            return replace(usual, detected=_UNDETECTED)
        detected = detect_source(text, self._sources(target), target)
        stays = detected.language == target
        direction = usual if stays else self._trained(detected.language, target)
        if direction is None:
            return None
        # Rounded to float32, as the server sends it.
        probability = struct.unpack("f", struct.pack("f", detected.probability))[0]
        return replace(direction, detected=Detected(detected.language, probability))

    def _trained(self, source: str | None, target: str | None) -> Direction | None:
        """Returns the server's first direction with these languages."""
        fitting: Sequence[tuple[str, str]] = [
            (src, tgt)
            for src, tgt in self._all
            if source in (None, src) and target in (None, tgt) and src != tgt
        ]
        return Direction(fitting[0], fallbacks=self._fallbacks) if fitting else None
