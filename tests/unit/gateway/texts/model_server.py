"""A server in memory that splits texts like the real one, for tests of the core."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from dragoman_client import (
    AsyncTranslator,
    InvalidRequest,
    LanguagePair,
    ServerInfo,
    Translation,
    __version__,
)
from dragoman_gateway.access.access import Access
from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.core.store import Store
from dragoman_gateway.glossaries.glossaries import Glossaries
from dragoman_gateway.memories.memories import Memories
from dragoman_gateway.texts.translations import Translations
from dragoman_options.languages import fold_language, language_fallbacks
from dragoman_options.markup import Markup, PlacedCodes
from dragoman_options.table import check, splits
from dragoman_serving.request.glossary import Glossary

from dragoman.kernel.texts.sentences import LineBreaks, split_sentences

DIRECTIONS = (("en", "de"), ("de", "en"))
_NOT_OF_SENTENCES = (
    *("return_bundle", "source_language", "target_language", "glossary", "split_sentences"),
    "markup",
)


class ModelServer:
    """Stands in for an `AsyncTranslator`; a sentence's translation shows everything it depends on.

    Attributes:
        asked: the texts of each request.
        options: of each request.
        bundle: its identity.
        let_go: requests wait for it.
        cancelled: requests that were cancelled.
    """

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.options: list[dict[str, Any]] = []
        self.bundle = "b" * 64
        self.let_go = asyncio.Event()
        self.let_go.set()
        self.cancelled = 0
        self.failing: list[Exception] = []
        self.informed = 0
        self.limits: dict[str, float] = {
            "text_characters": 5000,
            "request_characters": 20_000,
            "sentence_tokens": 254,
        }

    @property
    def texts(self) -> list[str]:
        return [text for texts in self.asked for text in texts]

    async def info(self) -> ServerInfo:
        self.informed += 1
        return ServerInfo(
            version=__version__,
            models=(),
            languages=("en", "de"),
            directions=DIRECTIONS,
            bundles=({"identity": self.bundle, "precision": "int8"},),
            options={},
            limits=self.limits,
            metrics_port=None,
            pairs=tuple(LanguagePair(*pair, ()) for pair in DIRECTIONS),
        )

    async def translate_checked(
        self, texts: Sequence[str], options: Mapping[str, Any]
    ) -> list[Translation]:
        self.asked.append(list(texts))
        checked = check(options)
        assert checked == options
        self.options.append(checked)
        try:
            await self.let_go.wait()
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.failing:
            raise self.failing.pop(0)
        translations = [self._one(index, text, checked) for index, text in enumerate(texts)]
        markups = checked.get("markup", ())
        return [
            replace(translation, codes=_clipped(markups[index] or Markup(), len(translation.text)))
            if markups
            else translation
            for index, translation in enumerate(translations)
        ]

    async def close(self) -> None:
        """Do nothing."""

    def _one(self, index: int, text: str, options: Mapping[str, Any]) -> Translation:
        if "refused" in text or len(text) > 5000:
            raise InvalidRequest(f"text {index} is refused", text_index=index)
        given = options.get("source_language", "en")
        source = "en" if given == "auto" else fold_language(given, ("en", "de"))
        target = {"en": "de", "de": "en"}[cast(str, source)]
        parts = [(text, "")]
        if splits(options):
            parts = split_sentences(text, cast(str, source))
        translated, tokens, warnings, is_cut = "", 0, set[str](), False
        for sentence, kept in parts:
            breaks = LineBreaks.of(sentence)
            if sentence:
                said = _said(breaks.line, (self.bundle, source, target), options)
                translated += breaks.put_into(said)
                tokens += len(said.split())
                is_cut |= sum(said.encode()) % 13 == 0
                warnings |= {"untranslated"} if sum(said.encode()) % 3 == 0 else set()
            translated += kept
        return Translation(
            translated,
            tokens,
            "length" if is_cut else "stop",
            bundle=self.bundle if "return_bundle" in options else None,
            warnings=tuple(sorted(warnings)),
            language_fallbacks=language_fallbacks(
                map(options.get, ("source_language", "target_language")), ("en", "de")
            ),
        )


def _clipped(markup: Markup, last: int) -> PlacedCodes:
    """Codes at their positions in the text, up to the translation's length."""
    return PlacedCodes(tuple((min(begin, last), min(end, last)) for begin, end, _ in markup.codes))


def _said(line: str, model: tuple[str | None, ...], options: Mapping[str, Any]) -> str:
    matches = Glossary(options["glossary"]).of(line) if "glossary" in options else ()
    terms = tuple(dict.fromkeys(match.target for match in matches))
    others = sorted((n, v) for n, v in options.items() if n not in _NOT_OF_SENTENCES)
    digest = hashlib.sha256(repr((line, model, terms, others)).encode()).hexdigest()[:8]
    return " ".join((*line.split()[::-1], *terms, digest))


def translations_of(server: ModelServer, **settings: Any) -> Translations:
    """The gateway's translations over a server."""
    given = GatewaySettings(**settings)
    store = Store(None)
    return Translations(
        given,
        Access(given, store),
        Glossaries(given, store),
        Memories(given, store),
        cast(AsyncTranslator, server),
    )


def asked_of(server: ModelServer) -> SimpleNamespace:
    """The last request."""
    return SimpleNamespace(texts=server.asked[-1], options=server.options[-1])
