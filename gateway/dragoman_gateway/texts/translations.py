"""Translation for all protocols: admission, glossaries, the cache, and requests to the server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any, TypeVar

from dragoman_client import AsyncTranslator, PairScore, ServerInfo, Translation, __version__
from dragoman_client.transports.engine_transport import EngineTransport
from dragoman_documents.core.suggestions import Suggestions
from dragoman_options.frames import Figure
from dragoman_options.markup import Markup
from dragoman_options.refusal import Refusal
from dragoman_options.table import check, sampled

from dragoman.kernel.errors import DragomanError
from dragoman.kernel.texts.language import Detected, detect_language, detectable_languages
from dragoman_gateway.access.access import Access
from dragoman_gateway.access.limits import check_number
from dragoman_gateway.access.record import is_traced
from dragoman_gateway.core.caller import Caller
from dragoman_gateway.core.errors import (
    DeadlineExceeded,
    GatewayError,
    InvalidInput,
    client_errors,
    renumbering,
)
from dragoman_gateway.core.retries import with_retries
from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.glossaries.glossaries import Glossaries
from dragoman_gateway.glossaries.term_index import TermIndex, Terms
from dragoman_gateway.memories.memories import Memories
from dragoman_gateway.texts.cache import Cache, CacheCounts, CacheKeys
from dragoman_gateway.texts.directions import Direction, Directions
from dragoman_gateway.texts.flights import Flight, Flights
from dragoman_gateway.texts.languages import Languages
from dragoman_gateway.texts.merging import Merging, can_be_merged
from dragoman_gateway.texts.segmentation import SegmentedText
from dragoman_gateway.texts.server_status import ServerStatus
from dragoman_gateway.texts.units import (
    Segmenter,
    TermsPerDirection,
    Unit,
    groups_of,
    key_options,
)

_FAULTS = frozenset(("repetition", "short", "long"))
"""Warnings that make the server search again unless it is overloaded; not stored in the cache."""
_MOST_GLOSSARIES = 20
"""Maximum number of glossaries of a request; each is searched for each text."""
MOST_DETECTED = 100_000
"""Characters of a text by which its language is detected, in the event loop."""
_FIELDS = tuple(field.name for field in fields(Translation))
_values_of = attrgetter(*_FIELDS)
_Answer = TypeVar("_Answer")


class CheckedOptions(dict[str, Any]):
    """Options as `dragoman_options.table.check` returns them; they are not checked again."""


class Translations:
    """Translates, scores and detects languages for callers; shared by all protocols."""

    def __init__(
        self,
        settings: GatewaySettings,
        access: Access,
        glossaries: Glossaries,
        memories: Memories,
        requests: AsyncTranslator | None = None,
    ) -> None:
        """Prepare connections to the server; the first request opens them.

        Args:
            settings: settings with the server's URLs.
            access: admits callers.
            glossaries: glossaries of all callers.
            memories: translation memories of all callers.
            requests: a connection for everything but streams; None: a new one.
        """
        self._timeout_s = timeout_s = settings.timeout_s
        self._engine: EngineTransport | None = None
        if (path := settings.engine_path) is not None:
            self._engine = EngineTransport(path)
        self._requests = requests or AsyncTranslator(
            settings.triton, timeout_s=timeout_s, retries=0, transport=self._engine
        )
        # gRPC for whole answers and HTTP for streams: in this combination both can be cancelled.
        self._streams = AsyncTranslator(
            settings.triton_http, timeout_s=timeout_s, transport=self._engine
        )
        self._access, self._glossaries, self._memories = access, glossaries, memories
        self._cache, self._flights = Cache(settings.cache_bytes), Flights()
        self._shares_cache = settings.share_cache
        self._merging = Merging(self._send) if self._engine is None else None
        self._server = ServerStatus(self._requests)

    @property
    def cache_counts(self) -> CacheCounts:
        """Counts of the cache, for metrics."""
        return self._cache.counts

    @property
    def engine_metrics(self) -> Sequence[Figure]:
        """The metrics of an engine without Triton; see `EngineTransport.metrics`."""
        return () if self._engine is None else self._engine.metrics

    async def close(self) -> None:
        """Close the connections."""
        await self._requests.close()
        await self._streams.close()

    async def is_ready(self) -> bool:
        """Whether the server can translate now; see `ServerStatus.is_ready`."""
        return await self._server.is_ready()

    async def info(self) -> ServerInfo:
        """Returns the server's information, or the last known one if the server does not answer.

        Raises:
            GatewayError: the server has never answered.
        """
        try:
            return (await self._server.confirmed())[0]
        except GatewayError:
            if (known := self._server.known) is None:
                raise
            return known

    async def languages(self) -> Languages:
        """Returns the server's languages."""
        await self.info()
        return self._server.languages

    async def translate(
        self,
        caller: Caller,
        texts: Sequence[str],
        options: Mapping[str, Any],
        *,
        store: bool = True,
    ) -> list[Translation]:
        """Translate texts.

        Cancelling the task cancels the request down to the decoder, unless another request waits
        for the same texts. Over gRPC only large requests are; see the client's `grpc_streams`.

        Args:
            caller: the sender of the request; it is admitted here, and its characters are counted.
            texts: any number of texts of any length that the server accepts.
            options: options of the option table, by name, and `glossary_ids`: ids of stored
                glossaries, whose terms that occur in a text are used; earlier ones take precedence;
                and `memory_id`: id of a translation memory, whose translations of these texts are
                used.
            store: whether the answer may come from the cache and be stored in it.

        Returns:
            Translations in the order of the texts.

        Raises:
            GatewayError: the request failed.
        """
        _check_number(texts, options)
        async with self._access.admitted(caller, sum(map(len, texts))):
            return await self._translate_in_time(caller, texts, options, store)

    async def translate_admitted(
        self,
        caller: Caller,
        texts: Sequence[str],
        options: Mapping[str, Any],
        *,
        store: bool = True,
    ) -> list[Translation]:
        """`translate` for a caller that was admitted before."""
        _check_number(texts, options)
        return await self._translate_in_time(caller, texts, options, store)

    async def stored(
        self,
        caller: Caller,
        texts: Sequence[str],
        markups: Sequence[Markup],
        options: Mapping[str, Any],
    ) -> tuple[list[Translation | None], dict[str, Any]]:
        """Returns the translations that the memory of a request has, and the other options.

        The options have the languages of the memory if the request names none.

        Args:
            caller: the sender of the request.
            texts: texts in the order of their document.
            markups: markup of each text; empty: none.
            options: see `translate`.
        """
        others = dict(options)
        memory_id = others.pop("memory_id", None)
        if memory_id is None:
            return [None] * len(texts), others
        _, checked = _read_options(others)
        translations = await self._memories.stored(caller, memory_id, texts, markups, checked)
        memory = await self._memories.get(caller, memory_id)
        languages = {
            "source_language": memory.source_language,
            "target_language": memory.target_language,
        }
        named = {name: value for name, value in others.items() if value}
        return translations, {**others, **languages, **named}

    async def suggestions(
        self,
        caller: Caller,
        texts: Sequence[str],
        markups: Sequence[Markup],
        options: Mapping[str, Any],
    ) -> Sequence[Suggestions]:
        """Returns the translations of similar texts that the memory of a request has."""
        if not texts:
            return ()
        return await self._memories.suggestions(caller, options["memory_id"], texts, markups)

    async def _translate_in_time(
        self, caller: Caller, texts: Sequence[str], options: Mapping[str, Any], store: bool
    ) -> list[Translation]:
        if not texts:
            return []
        translate = self._translate if options.get("memory_id") is None else self._with_memory
        return await self._in_time(translate(caller, texts, options, store))

    async def _with_memory(
        self, caller: Caller, texts: Sequence[str], options: Mapping[str, Any], store: bool
    ) -> list[Translation]:
        """Translate texts, those of them with the request's memory that it has."""
        markups: Sequence[Markup] = options.get("markup", ())
        stored, others = await self.stored(caller, texts, markups, options)
        missing = [index for index, translation in enumerate(stored) if translation is None]
        if markups:
            others["markup"] = [markups[index] for index in missing]
        answers: Iterator[Translation] = iter(())
        if missing:
            unknown = [texts[index] for index in missing]
            with renumbering(missing):
                answers = iter(await self._translate(caller, unknown, others, store))
        return [next(answers) if translation is None else translation for translation in stored]

    async def _translate(
        self, caller: Caller, texts: Sequence[str], options: Mapping[str, Any], store: bool
    ) -> list[Translation]:
        ids, checked = _read_options(options)
        # Samples without a seed differ each time, and markup belongs to a whole text.
        is_fixed = (not sampled(checked) or "seed" in checked) and "markup" not in checked
        keeps = store and caller.caches and is_fixed
        if not keeps and not ids:
            return await self._ask(texts, checked)
        info, server = await self._server.confirmed()
        directions = Directions(info, checked)
        of_texts = await self._directions_of(texts, directions)
        is_other = directions.detects and not ids and info.version != __version__
        prefixes = len(checked.get("prefix", "1"))
        if of_texts is None or is_other or not _fit(texts, info) or prefixes not in (1, len(texts)):
            return await self._ask(texts, checked)
        terms = await self._terms_of(caller, ids, checked, of_texts, strict=not directions.detects)
        keys = self._cache_keys(caller, server, checked)
        segmenter = Segmenter(checked, keys, terms, _sentence_tokens(info), keeps)
        if "markup" in checked or any(direction.stays for direction in of_texts):
            return await self._ask(texts, checked | await segmenter.all_terms(texts, of_texts))
        parts = await segmenter.all_units(texts, of_texts)
        units = {unit.key: unit for _, of_text in parts for unit in of_text}
        try:
            translated = await self._translated(units, checked, info, keeps)
        except InvalidInput as error:
            if error.text_index is None:
                raise
            translated = None  # ask for whole texts, so that the error has the index of a text
        if translated is None or _are_of_two_models(parts, translated):
            return await self._ask(texts, checked | await segmenter.all_terms(texts, of_texts))
        wants_bundle = "return_bundle" in checked
        return [
            finished(
                segmented.joined([translated[u.key] for u in of_text]), direction, wants_bundle
            )
            for (segmented, of_text), direction in zip(parts, of_texts, strict=True)
        ]

    async def languages_of(
        self, sample: str, options: Mapping[str, Any], source_field: str
    ) -> dict[str, str]:
        """Returns the language options for a document whose language must be detected.

        Args:
            sample: the beginning of the document.
            options: options of the request.
            source_field: the protocol's name of the source language, for messages.

        Raises:
            InvalidInput: the detected language is the target language, or not a source language of
                the server.
        """
        info, _ = await self._server.confirmed()
        direction = Directions(info, options).of_document(sample, source_field)
        source, target = direction.languages
        return {"source_language": source, "target_language": target}

    async def check_direction(self, options: Mapping[str, Any]) -> tuple[str, str]:
        """Check the languages of a request that is translated later; see `Directions.check`."""
        return Directions(await self.info(), options).check()

    async def detected_directions(
        self, texts: Sequence[str], options: Mapping[str, Any]
    ) -> list[Direction] | None:
        """Detect the direction of each text.

        Returns:
            None if detection is not requested, or if the server refuses a text.
        """
        info, _ = await self._server.confirmed()
        directions = Directions(info, options)
        return await self._directions_of(texts, directions) if directions.detects else None

    async def check_glossaries(self, caller: Caller, options: Mapping[str, Any]) -> None:
        """Check that a request can use its glossaries.

        Raises:
            InvalidInput: a glossary has no dictionary for the request's direction.
            NotFound: a glossary does not exist.
        """
        ids, checked = _read_options(options)
        info, _ = await self._server.confirmed()
        direction = Directions(info, checked).of("")
        if direction is not None:
            await self._terms_of(caller, ids, checked, [direction], strict=True)

    async def stream(
        self, caller: Caller, text: str, options: Mapping[str, Any]
    ) -> AsyncGenerator[Translation, None]:
        """Translate a text and stream the growing translation.

        Closing the generator cancels the request.

        Yields:
            Translations with the stable prefix so far; the last one has a `finish_reason`.

        Raises:
            GatewayError: the request failed; raised while iterating.
        """
        async with self._access.admitted(caller, len(text)):
            stored, options = await self.stored(caller, [text], (), options)
            if (translation := stored[0]) is not None:
                yield replace(translation, delta=translation.text)
                return
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

        The characters of the translations count too, because the model also reads them.

        Raises:
            GatewayError: the request failed.
        """
        check_number(texts)
        async with self._access.admitted(caller, sum(map(len, (*texts, *targets)))):
            with client_errors():
                scoring = with_retries(lambda: self._requests.score(texts, targets, **options))
                return await self._in_time(scoring)

    async def detect(self, text: str) -> Detected:
        """Detect the language of a text, among the server's source languages.

        The probability is relative to all detectable languages: it is close to 0 if the text is in
        a language that the server does not have.

        Raises:
            GatewayError: the server does not answer with its languages.
        """
        sources = (await self.languages()).sources
        try:
            return detect_language(text[:MOST_DETECTED], sources, detectable_languages())
        except DragomanError as error:
            raise InvalidInput(*Refusal.of(error)) from error

    async def _in_time(self, work: Awaitable[_Answer]) -> _Answer:
        """Apply the timeout to all server requests of an answer together."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await work
        except TimeoutError as error:
            raise DeadlineExceeded(f"no answer within {self._timeout_s:g} s") from error

    async def _ask(self, texts: Sequence[str], options: Mapping[str, Any]) -> list[Translation]:
        """Send texts to the server; `options` must be checked."""
        merging = self._merging
        # A traced request is not merged, so that its trace has exactly this request.
        if (
            merging is not None
            and len(texts) == 1
            and can_be_merged(texts[0], options)
            and not is_traced()
        ):
            return [await merging.translate(texts[0], options)]
        return await self._send(texts, options)

    async def _send(self, texts: Sequence[str], options: Mapping[str, Any]) -> list[Translation]:
        with client_errors():
            return await with_retries(lambda: self._requests.translate_checked(texts, options))

    def _cache_keys(self, caller: Caller, server: bytes, options: Mapping[str, Any]) -> CacheKeys:
        owner = "" if self._shares_cache else caller.name
        return CacheKeys(server, owner, key_options(options))

    async def _directions_of(
        self, texts: Sequence[str], directions: Directions
    ) -> list[Direction] | None:
        """Returns the direction of each text; None: the server will refuse one."""
        of_texts: list[Direction] = []
        for index, text in enumerate(texts):
            if index % 64 == 63:
                await asyncio.sleep(0)  # detection takes 50 us
            if (direction := directions.of(text)) is None:
                return None
            of_texts.append(direction)
        return of_texts

    async def _terms_of(
        self,
        caller: Caller,
        ids: Sequence[str],
        options: Mapping[str, Any],
        directions: Sequence[Direction],
        strict: bool,
    ) -> TermsPerDirection:
        """Returns the terms of a request's glossaries for each direction of its texts."""
        given = options.get("glossary")
        inline = (TermIndex(given),) if given else ()
        by_direction: dict[tuple[str, str], Terms] = {}
        for languages in {direction.languages: None for direction in directions}:
            stored = Terms(())
            if ids:
                stored = await self._glossaries.terms(caller, ids, languages, strict)
            by_direction[languages] = Terms((*inline, *stored.indexes))
        return by_direction

    async def _with_terms(
        self, caller: Caller, text: str, options: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Returns the options of a text with the terms of its glossaries instead of their ids."""
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
        keys = self._cache_keys(caller, server, checked)
        segmenter = Segmenter(checked, keys, terms, _sentence_tokens(info), keeps=False)
        return checked | await segmenter.all_terms([text], [direction])

    async def _translated(
        self,
        units: Mapping[bytes, Unit],
        options: Mapping[str, Any],
        info: ServerInfo,
        keeps: bool,
        joins: bool = True,
    ) -> dict[bytes, Translation]:
        """Get translations of units by key, from the cache, other requests or the server."""
        translations: dict[bytes, Translation] = {}
        joined: dict[bytes, Flight] = {}
        missing: list[Unit] = []
        for key, unit in units.items():
            if keeps and joins and (kept := self._cache.get(key)) is not None:
                translations[key] = kept
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
                translations |= zip(keys, await flight.translations(), strict=True)
            again: dict[bytes, Unit] = {}
            for key, flight in joined.items():
                try:
                    translations[key] = await flight.translation(key)
                    self._cache.counts.shared += 1
                except GatewayError:
                    # The other request may have had an earlier deadline, or was refused because of
                    # another text or term of its own: send these units again.
                    again[key] = units[key]
        if again:
            translations |= await self._translated(again, options, info, keeps, joins=False)
        return translations

    async def _ask_for(
        self, units: Sequence[Unit], options: Mapping[str, Any], info: ServerInfo, keeps: bool
    ) -> list[Translation]:
        """Send units of one direction to the server, and store the answers in the cache."""
        source, target = units[0].languages
        of_request = {
            **options,
            "source_language": source,
            "target_language": target,
            "return_bundle": True,
        }
        of_request.pop("glossary", None)
        if terms := {term: tgt for unit in units for term, tgt in unit.terms.items()}:
            of_request["glossary"] = terms
        if "prefix" in of_request:
            of_request["prefix"] = tuple(unit.prefix for unit in units)
        translations = await self._ask([unit.text for unit in units], of_request)
        if keeps:
            bundles = {bundle["identity"] for bundle in info.bundles}
            for unit, translation in zip(units, translations, strict=True):
                if not bundles.issuperset((translation.bundle or "").split(",")):
                    self._server.forget()  # the model was replaced meanwhile
                elif _FAULTS.isdisjoint(translation.warnings) and translation.attention is None:
                    self._cache.put(unit.key, translation)
        return translations


def _read_options(options: Mapping[str, Any]) -> tuple[Sequence[str], dict[str, Any]]:
    """Returns the ids of glossaries, and the other options checked."""
    if isinstance(options, CheckedOptions) and "glossary_ids" not in options:
        return (), options
    given = dict(options)
    ids = given.pop("glossary_ids", None) or ()
    if isinstance(ids, str) or not all(isinstance(id_, str) for id_ in ids):
        raise InvalidInput("glossary_ids: give a list of ids")
    if len(ids) > _MOST_GLOSSARIES:
        raise InvalidInput(f"glossary_ids: {len(ids)} ids: give at most {_MOST_GLOSSARIES}")
    with client_errors():
        if ids and not given.get("glossary"):
            # Some options exclude a glossary, whether or not a text has a term of it.
            check({**given, "glossary": {"a": "a"}})
        return tuple(ids), check(given)


def _are_of_two_models(
    parts: Sequence[tuple[SegmentedText, Sequence[Unit]]],
    translated: Mapping[bytes, Translation],
) -> bool:
    """Whether a model was replaced while the units of a text were translated."""
    return any(
        len(units) > 1 and len({translated[unit.key].bundle for unit in units}) > 1
        for _, units in parts
    )


def _sentence_tokens(info: ServerInfo) -> int:
    """Returns the tokens of a sentence above which a server cuts it; 0 if unknown."""
    return int(info.limits.get("sentence_tokens", 0))


def _fit(texts: Sequence[str], info: ServerInfo) -> bool:
    """Whether the server accepts the length of the texts; their units alone would pass."""
    lengths = [len(text) for text in texts]
    most, together = (info.limits.get(f"{name}_characters") for name in ("text", "request"))
    if most is not None and max(lengths) > most:
        return False
    return together is None or len(texts) == 1 or sum(lengths) <= together


def finished(translation: Translation, direction: Direction, wants_bundle: bool) -> Translation:
    """Returns a translation and its alternatives with exactly the requested fields."""
    detected = direction.detected
    copy = object.__new__(Translation)  # in half of the time that `dataclasses.replace` takes
    vars(copy).update(
        zip(_FIELDS, _values_of(translation), strict=True),
        alternatives=translation.alternatives
        and tuple(finished(other, direction, wants_bundle) for other in translation.alternatives),
        bundle=translation.bundle if wants_bundle else None,
        language_fallbacks=direction.fallbacks,
        detected_language=detected.language or None if detected else None,
        detected_probability=detected.probability if detected else None,
    )
    return copy


def _check_number(texts: Sequence[str], options: Mapping[str, Any]) -> None:
    """Refuse too many texts, or translations of them."""
    each = options.get("num_return_sequences")
    check_number(texts, each if type(each) is int else 1)  # other values are refused later
