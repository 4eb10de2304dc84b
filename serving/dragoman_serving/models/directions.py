"""From which language into which each text of a request is translated.

Knows the model's languages and how a text's is found out; must not know the engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from reprlib import repr as brief

from dragoman.kernel.errors import InvalidRequest
from dragoman.kernel.manifest import Manifest
from dragoman_serving.models.language import OtherLanguage, detect_language
from dragoman_serving.request.options import RequestOptions

AUTO = "auto"


class Directions:
    """Those that a model has learnt."""

    def __init__(self, manifest: Manifest) -> None:
        """Know the model's languages."""
        self._known, self._all = manifest.languages, manifest.all_directions

    def of_texts(
        self, texts: Sequence[str], options: RequestOptions, first: int = 0
    ) -> Iterator[tuple[str, str]]:
        """Source and target language of each text, found out when they are asked for.

        Args:
            texts: some texts of a request.
            options: of the request.
            first: index of the first of them, for messages.

        Raises:
            InvalidRequest: a language or a direction that the model does not have.
        """
        languages = self._languages(options)
        for index, text in enumerate(texts, start=first):
            if options.source_language == AUTO:
                languages = self._direction(index, text, options)
            yield languages

    def _direction(self, index: int, text: str, options: RequestOptions) -> tuple[str, str]:
        """The languages of a text whose source language is to be found out."""
        known, target = self._known, options.target_language
        try:
            source = detect_language(text, [one for one in known if one != target], known)
        except OtherLanguage as error:
            raise InvalidRequest(f"text {index} {error}; name source_language if not") from error
        return self._learnt(source, target)

    def _languages(self, options: RequestOptions) -> tuple[str, str]:
        known = self._known
        for name in ("source_language", "target_language"):
            language = getattr(options, name)
            if name == "source_language" and language == AUTO:
                continue
            if language is not None and language not in known:
                raise InvalidRequest(
                    f"{name} {brief(language)} is unknown; known: {', '.join(known)}"
                )
        source, target = options.source_language, options.target_language
        if source == AUTO:
            return source, target or known[0]  # of each text it is found out later
        if source is not None and source == target:
            raise InvalidRequest(f"source_language and target_language are both {source!r}")
        return self._learnt(source, target)

    def _learnt(self, source: str | None, target: str | None) -> tuple[str, str]:
        """The first direction of the model's that fits."""
        for src, tgt in self._all:
            if source in (None, src) and target in (None, tgt):
                return src, tgt
        learnt = ", ".join("-".join(direction) for direction in self._all)
        raise InvalidRequest(
            f"the model does not translate from {source!r} into {target!r}: it knows {learnt}"
        )
