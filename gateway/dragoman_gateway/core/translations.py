"""Translation for every protocol: admission, glossaries, the cache, and the requests to Triton."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, TypeVar

from dragoman_client import AsyncTranslator, PairScore, ServerInfo, Translation, __version__
from dragoman_client.document_translation import OF_ONE_TEXT
from dragoman_options.table import check, sampled

from dragoman.kernel.errors import DragomanError
from dragoman.kernel.language import Detected, detect_language, detectable_languages
from dragoman_gateway.core.access import Access
from dragoman_gateway.core.cache import Cache, CacheCounts
from dragoman_gateway.core.caller import Caller
from dragoman_gateway.core.directions import Direction, Directions
from dragoman_gateway.core.errors import DeadlineExceeded, GatewayError, InvalidInput, client_errors
from dragoman_gateway.core.flights import Flight, Flights
from dragoman_gateway.core.glossaries import Glossaries
from dragoman_gateway.core.languages import Languages
from dragoman_gateway.core.limits import check_number
from dragoman_gateway.core.merging import Merging, can_be_merged
from dragoman_gateway.core.record import is_traced
from dragoman_gateway.core.retries import with_retries
from dragoman_gateway.core.segmentation import SegmentedText
from dragoman_gateway.core.server_status import ServerStatus
from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.core.term_index import TermIndex, Terms
from dragoman_gateway.core.units import Segmenter, TermsPerDirection, Unit, groups_of

_FAULTS = frozenset(("repetition", "short", "long"))
"""Warnings after which the server searches again unless it is overloaded: not to be kept."""
_MOST_GLOSSARIES = 20
"""Of a request; each is looked through for each text."""
_Answer = TypeVar("_Answer")


class Translations:
    """Translates, scores and detects for callers; one for all protocols."""

    def __init__(
        self,
        settings: GatewaySettings,
        access: Access,
        glossaries: Glossaries,
        requests: AsyncTranslator | None = None,
    ) -> None:
        """Prepare connections to Triton, which the first request makes.

        Args:
            settings: where Triton is.
            access: admits callers.
            glossaries: of all callers.
            requests: a connection for all but streams; None: a new one.
        """
        # Over gRPC for whole answers, over HTTP for streams: each is safe to cancel.
        self._timeout_s = timeout_s = settings.timeout_s
        self._requests = requests or AsyncTranslator(
            settings.triton, timeout_s=timeout_s, retries=0
        )
        self._streams = AsyncTranslator(settings.triton_http, timeout_s=timeout_s)
        self._access, self._glossaries = access, glossaries
        self._cache, self._flights = Cache(settings.cache_bytes), Flights()
        self._merging = Merging(self._send)
        self._server = ServerStatus(self._requests)

    @property
    def cache_counts(self) -> CacheCounts:
        """Of the cache, for metrics."""
        return self._cache.counts

    async def close(self) -> None:
        """Close the connections."""
        await self._requests.close()
        await self._streams.close()

    async def is_ready(self) -> bool:
        """Whether the server can translate now; see `ServerStatus.is_ready`."""
        return await self._server.is_ready()

    async def info(self) -> ServerInfo:
        """The information of the server: the last one received if it cannot be asked now.

        Raises:
            GatewayError: it cannot be asked, and never could.
        """
        try:
            return (await self._server.confirmed())[0]
        except GatewayError:
            if (known := self._server.known) is None:
                raise
            return known

    async def languages(self) -> Languages:
        """What the server translates."""
        return Languages.of(await self.info())

    async def translate(
        self,
        caller: Caller,
        texts: Sequence[str],
        options: Mapping[str, Any],
        *,
        store: bool = True,
    ) -> list[Translation]:
        """Translate texts.

        Cancelling the task cancels the work of a large request down to the decoder, if nobody else
        waits for it; see `dragoman_client.grpc_streams`.

        Args:
            caller: who asks; it is admitted here, and its characters are counted.
            texts: any number, in any length that the server takes.
            options: of the option table, by name, and `glossary_ids`: of stored glossaries,
                whose terms that occur in a text are used; an earlier one comes first.
            store: whether the answer may come from the cache and be kept in it.

        Returns:
            In the order of the texts.

        Raises:
            GatewayError: the request failed.
        """
        check_number(texts)
        async with self._access.admitted(caller, sum(map(len, texts))):
            return await self.translate_admitted(caller, texts, options, store=store)

    async def translate_admitted(
        self,
        caller: Caller,
        texts: Sequence[str],
        options: Mapping[str, Any],
        *,
        store: bool = True,
    ) -> list[Translation]:
        """As `translate`, for a caller that was admitted before."""
        check_number(texts)
        if not texts:
            return []
        return await self._in_time(self._translate(caller, texts, options, store))

    async def _translate(
        self, caller: Caller, texts: Sequence[str], options: Mapping[str, Any], store: bool
    ) -> list[Translation]:
        ids, checked = _read_options(options)
        # Samples without a seed differ each time, and markup is that of a whole text.
        is_fixed = (not sampled(checked) or "seed" in checked) and "markup" not in checked
        keeps = store and caller.caches and is_fixed
        if not keeps and not ids:
            return await self._ask(texts, checked)
        info, server = await self._server.confirmed()
        directions = Directions(info, checked)
        found = await self._directions_of(texts, directions)
        is_other = directions.detects and not ids and info.version != __version__
        prefixes = len(checked.get("prefix", "1"))
        if found is None or is_other or not _fit(texts, info) or prefixes not in (1, len(texts)):
            return await self._ask(texts, checked)
        terms = await self._terms_of(caller, ids, checked, found, strict=not directions.detects)
        segmenter = Segmenter(checked, server, terms, keeps)
        if "markup" in checked:
            return await self._ask(texts, checked | await segmenter.all_terms(texts, found))
        parts = await segmenter.all_units(texts, found)
        units = {unit.key: unit for _, of_text in parts for unit in of_text}
        try:
            translated = await self._translated(units, checked, info, keeps)
        except InvalidInput as error:
            if not is_of_one_text(error):
                raise
            translated = None  # asked for whole, it is refused with the text's index, not a unit's
        if translated is None or _are_of_two_models(parts, translated):
            return await self._ask(texts, checked | await segmenter.all_terms(texts, found))
        wants_bundle = "return_bundle" in checked
        return [
            finished(
                segmented.joined([translated[u.key] for u in of_text]), direction, wants_bundle
            )
            for (segmented, of_text), direction in zip(parts, found, strict=True)
        ]

    async def languages_of(self, sample: str, options: Mapping[str, Any]) -> dict[str, str]:
        """The options of languages for a document whose language is to be detected.

        Args:
            sample: its beginning.
            options: of the request.

        Raises:
            InvalidInput: it is in none that the server translates from.
        """
        info, _ = await self._server.confirmed()
        found = Directions(info, options).of(sample)
        if found is None:
            raise InvalidInput(
                "the language of the document is none that is translated, as it seems; name "
                "source_language if it is"
            )
        source, target = found.languages
        return {"source_language": source, "target_language": target}

    async def check_direction(self, options: Mapping[str, Any]) -> None:
        """Refuse the languages of a request that is translated later; see `Directions.check`."""
        Directions(await self.info(), options).check()

    async def detected_directions(
        self, texts: Sequence[str], options: Mapping[str, Any]
    ) -> list[Direction] | None:
        """The direction of each text.

        Returns:
            None if the source language is not to be detected, or if the server refuses a text.
        """
        info, _ = await self._server.confirmed()
        directions = Directions(info, options)
        return await self._directions_of(texts, directions) if directions.detects else None

    async def check_glossaries(self, caller: Caller, options: Mapping[str, Any]) -> None:
        """Refuse glossaries that a request cannot use.

        Raises:
            InvalidInput: one has no dictionary for the request's direction.
            NotFound: there is none.
        """
        ids, checked = _read_options(options)
        info, _ = await self._server.confirmed()
        direction = Directions(info, checked).of("")
        if direction is not None:
            await self._terms_of(caller, ids, checked, [direction], strict=True)

    async def stream(
        self, caller: Caller, text: str, options: Mapping[str, Any]
    ) -> AsyncGenerator[Translation, None]:
        """Translate a text whose translation can be read as it grows.

        Closing the generator cancels the work.

        Yields:
            Translations as far as they are certain; the last one has a `finish_reason`.

        Raises:
            GatewayError: while iterating: the request failed.
        """
        async with self._access.admitted(caller, len(text)):
            options = await self._with_terms(caller, text, options)
            with client_errors():
                parts = self._streams.translate_stream(text, **options)
                try:
                    async for part in parts:
                        yield part
                finally:
                    await parts.aclose()

    async def score(
        self,
        caller: Caller,
        texts: Sequence[str],
        targets: Sequence[str],
        options: Mapping[str, Any],
    ) -> list[PairScore]:
        """Score given translations of texts.

        The characters of the translations count too, because the model reads them as well.

        Raises:
            GatewayError: the request failed.
        """
        check_number(texts)
        async with self._access.admitted(caller, sum(map(len, (*texts, *targets)))):
            with client_errors():
                scoring = with_retries(lambda: self._requests.score(texts, targets, **options))
                return await self._in_time(scoring)

    async def detect(self, text: str) -> Detected:
        """The language of a text, among those that the server translates from.

        The probability is that among all languages that can be detected: it is close to 0 if the
        text is in none that the server knows.

        Raises:
            GatewayError: the server cannot be asked for its languages.
        """
        sources = (await self.languages()).sources
        try:
            return detect_language(text, sources, detectable_languages())
        except DragomanError as error:
            raise InvalidInput(str(error)) from error

    async def _in_time(self, work: Awaitable[_Answer]) -> _Answer:
        """Bound all requests to the server together that an answer takes.

        Raises:
            DeadlineExceeded: they take too long.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                return await work
        except TimeoutError as error:
            raise DeadlineExceeded(f"no answer within {self._timeout_s:g} s") from error

    async def _ask(self, texts: Sequence[str], options: Mapping[str, Any]) -> list[Translation]:
        """Let the server translate; `options` are checked."""
        # A request that is traced is sent alone, so that its trace has all of it and nothing else.
        if len(texts) == 1 and can_be_merged(texts[0], options) and not is_traced():
            return [await self._merging.translate(texts[0], options)]
        return await self._send(texts, options)

    async def _send(self, texts: Sequence[str], options: Mapping[str, Any]) -> list[Translation]:
        with client_errors():
            return await with_retries(lambda: self._requests.translate(texts, **options))

    async def _directions_of(
        self, texts: Sequence[str], directions: Directions
    ) -> list[Direction] | None:
        """The direction of each text; None: the server refuses one."""
        found: list[Direction] = []
        for index, text in enumerate(texts):
            if index % 64 == 63:
                await asyncio.sleep(0)  # detection takes 50 us
            if (direction := directions.of(text)) is None:
                return None
            found.append(direction)
        return found

    async def _terms_of(
        self,
        caller: Caller,
        ids: Sequence[str],
        options: Mapping[str, Any],
        directions: Sequence[Direction],
        strict: bool,
    ) -> TermsPerDirection:
        """The terms of a request's glossaries for each direction of its texts."""
        given = options.get("glossary")
        inline = (TermIndex(given),) if given else ()
        found: dict[tuple[str, str], Terms] = {}
        for languages in {direction.languages: None for direction in directions}:
            stored = Terms(())
            if ids:
                stored = await self._glossaries.terms(caller, ids, languages, strict)
            found[languages] = Terms((*inline, *stored.indexes))
        return found

    async def _with_terms(
        self, caller: Caller, text: str, options: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Options of a text with the terms of its glossaries in place of their ids."""
        if not options.get("glossary_ids"):
            return {name: value for name, value in options.items() if name != "glossary_ids"}
        ids, checked = _read_options(options)
        info, server = await self._server.confirmed()
        directions = Directions(info, checked)
        if (direction := directions.of(text)) is None:
            return checked
        terms = await self._terms_of(
            caller, ids, checked, [direction], strict=not directions.detects
        )
        segmenter = Segmenter(checked, server, terms, keeps=False)
        return checked | await segmenter.all_terms([text], [direction])

    async def _translated(
        self,
        units: Mapping[bytes, Unit],
        options: Mapping[str, Any],
        info: ServerInfo,
        keeps: bool,
        joins: bool = True,
    ) -> dict[bytes, Translation]:
        """The translations of units by key: of the cache, of other requests, or of the server."""
        found: dict[bytes, Translation] = {}
        joined: dict[bytes, Flight] = {}
        missing: list[Unit] = []
        for key, unit in units.items():
            if keeps and joins and (kept := self._cache.get(key)) is not None:
                found[key] = kept
            elif keeps and joins and (flight := self._flights.find(key)) is not None:
                joined[key] = flight
            else:
                missing.append(unit)
        with ExitStack() as waiting:
            begun = []
            for group in groups_of(missing):
                keys = [unit.key for unit in group]
                sending = self._ask_for(group, options, info, keeps)
                flight = self._flights.begin(sending, keys, joinable=keeps and joins)
                begun.append((keys, waiting.enter_context(flight)))
            for flight in dict.fromkeys(joined.values()):
                waiting.enter_context(flight)
            for keys, flight in begun:
                found |= zip(keys, await flight.translations(), strict=True)
            again: dict[bytes, Unit] = {}
            for key, flight in joined.items():
                try:
                    found[key] = await flight.translation(key)
                    self._cache.counts.shared += 1
                except GatewayError:
                    # Its deadline was an earlier one, or what was refused, and is named by the
                    # message, is another text or a term of who sent it.
                    again[key] = units[key]
        if again:
            found |= await self._translated(again, options, info, keeps, joins=False)
        return found

    async def _ask_for(
        self, units: Sequence[Unit], options: Mapping[str, Any], info: ServerInfo, keeps: bool
    ) -> list[Translation]:
        """Let the server translate units of one direction, and keep what it answers."""
        source, target = units[0].languages
        asked = {
            **options,
            "source_language": source,
            "target_language": target,
            "return_bundle": True,
        }
        asked.pop("glossary", None)
        if terms := {term: tgt for unit in units for term, tgt in unit.terms.items()}:
            asked["glossary"] = terms
        if "prefix" in asked:
            asked["prefix"] = [unit.prefix for unit in units]
        found = await self._ask([unit.text for unit in units], asked)
        if keeps:
            bundles = {bundle["identity"] for bundle in info.bundles}
            for unit, one in zip(units, found, strict=True):
                if not bundles.issuperset((one.bundle or "").split(",")):
                    self._server.forget()  # another model has taken its place meanwhile
                elif _FAULTS.isdisjoint(one.warnings) and one.attention is None:
                    self._cache.put(unit.key, one)
        return found


def is_of_one_text(error: InvalidInput) -> bool:
    """Whether a text, and not an option, is what the server refuses."""
    return OF_ONE_TEXT.match(str(error)) is not None


def _read_options(options: Mapping[str, Any]) -> tuple[Sequence[str], dict[str, Any]]:
    """The ids of glossaries, and the other options checked.

    Raises:
        InvalidInput: an option that does not fit, or a value that is none.
    """
    given = dict(options)
    ids = given.pop("glossary_ids", None) or ()
    if isinstance(ids, str) or not all(isinstance(one, str) for one in ids):
        raise InvalidInput("glossary_ids: give a list of ids")
    if len(ids) > _MOST_GLOSSARIES:
        raise InvalidInput(f"glossary_ids: {len(ids)} ids: give at most {_MOST_GLOSSARIES}")
    with client_errors():
        if ids and not given.get("glossary"):
            # A glossary does not go with some options, whether a text has a term of it or not.
            check({**given, "glossary": {"a": "a"}})
        return tuple(ids), check(given)


def _are_of_two_models(
    parts: Sequence[tuple[SegmentedText, Sequence[Unit]]],
    translated: Mapping[bytes, Translation],
) -> bool:
    """Whether a text's units were translated by two models, of which one took the other's place."""
    return any(len({translated[unit.key].bundle for unit in units}) > 1 for _, units in parts)


def _fit(texts: Sequence[str], info: ServerInfo) -> bool:
    """Whether the server takes texts of such length; split they would pass."""
    lengths = [len(text) for text in texts]
    most, together = (info.limits.get(f"{name}_characters") for name in ("text", "request"))
    if most is not None and max(lengths) > most:
        return False
    return together is None or len(texts) == 1 or sum(lengths) <= together


def finished(translation: Translation, direction: Direction, wants_bundle: bool) -> Translation:
    """A translation, and its alternatives, with what its request asked for."""
    detected = direction.detected
    if detected is None and wants_bundle:
        return translation
    return replace(
        translation,
        alternatives=tuple(
            finished(one, direction, wants_bundle) for one in translation.alternatives
        ),
        bundle=translation.bundle if wants_bundle else None,
        detected_language=detected.language or None if detected else None,
        detected_probability=detected.probability if detected else None,
    )
