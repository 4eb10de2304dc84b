"""Translation for every protocol: admission, glossaries, the cache, and the requests to Triton."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from dragoman_client import (
    AsyncTranslator,
    PairScore,
    ServerInfo,
    ServerUnavailable,
    Translation,
    TranslationError,
    __version__,
)
from dragoman_options.table import AUTO, check, requested_outputs, sampled, splits

from dragoman.kernel.errors import DragomanError
from dragoman.kernel.language import Detected, OtherLanguage, detect_language, detectable_languages
from dragoman_gateway.core.access import Access
from dragoman_gateway.core.cache import Cache, CacheCounts, CacheKeys, fingerprint
from dragoman_gateway.core.caller import Caller
from dragoman_gateway.core.directions import Direction, Directions
from dragoman_gateway.core.errors import GatewayError, InvalidInput, of_client
from dragoman_gateway.core.flights import Flight, Flights
from dragoman_gateway.core.glossaries import Glossaries, Terms
from dragoman_gateway.core.languages import Languages
from dragoman_gateway.core.limits import check_number
from dragoman_gateway.core.merging import Merging, can_be_merged
from dragoman_gateway.core.segmentation import SegmentedText, split, whole
from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.core.term_index import TermIndex

_PAUSES_S = (0.1, 0.2, 0.4)
"""Before a request is sent again to a Triton that restarts."""
_CONFIRMED_S = 1.0
"""For so long what the server said of itself is taken for true. A server takes longer to start, so
that nothing of a former model is answered once another one is there."""
_FRESH_S = 0.25
"""For so long the server is not asked again whether it is ready."""
_READY_S = 2.0
"""The longest that it may take to say."""
_OF_ONE_TEXT = re.compile(r"text \d+ ")
"""How the server begins when one text, and not an option, is at fault."""
_FAULTS = frozenset(("repetition", "short", "long"))
"""What the server searches again for, unless it is overloaded: another time it may be right."""
_OF_TEXTS = frozenset(("bundle", "detected_language", "detected_probability"))
"""Outputs that do not keep a text from being split."""
_APART = frozenset(("source_language", "target_language", "glossary", "prefix", "return_bundle"))
"""Options that each text has its own of, or that change nothing of an answer but what it holds."""
_UNCUT_TOKENS = 36
"""Below the server's default of `max_sentence_tokens`."""
_MOST_TERMS = 1000
_MOST_GLOSSARIES = 20
"""Of a request; each is looked through for each text."""
_LONG_CHARACTERS = 2000
"""Of a text whose splitting, which takes milliseconds and more, must not hold up others."""
_Answer = TypeVar("_Answer")
_TermsPerDirection = dict[tuple[str, str], Terms]


@dataclass(frozen=True, slots=True)
class _Unit:
    """What is translated by itself: a sentence, or a text."""

    text: str
    languages: tuple[str, str]
    terms: Mapping[str, str]
    prefix: str | None
    key: bytes


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
            requests: a connection for all but streams; None: one of its own.
        """
        # Of two ways, since each is safe to leave early for one kind of request.
        timeout_s = settings.timeout_s
        self._requests = requests or AsyncTranslator(
            settings.triton, timeout_s=timeout_s, retries=0
        )
        self._streams = AsyncTranslator(settings.triton_http, timeout_s=timeout_s)
        self._access, self._glossaries = access, glossaries
        self._cache, self._flights = Cache(settings.cache_bytes), Flights()
        self._merging = Merging(self._send)
        self._server = _Server(self._requests)
        self._asking, self._asked_s, self._was_ready = asyncio.Lock(), -_FRESH_S, False

    @property
    def cache_counts(self) -> CacheCounts:
        """Of the cache, for metrics."""
        return self._cache.counts

    async def close(self) -> None:
        """Close the connections."""
        await self._requests.close()
        await self._streams.close()

    async def is_ready(self) -> bool:
        """Whether the server can translate now, or could just now: probes do not load it."""
        async with self._asking:
            if time.monotonic() - self._asked_s >= _FRESH_S:
                try:
                    async with asyncio.timeout(_READY_S):
                        self._was_ready = await self._requests.is_ready()
                except TimeoutError:
                    self._was_ready = False
                self._asked_s = time.monotonic()
            return self._was_ready

    async def info(self) -> ServerInfo:
        """What the server says of itself, or last said if it cannot be asked now.

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
        info = await self.info()
        return Languages(info.languages, frozenset(info.directions))

    async def translate(
        self,
        caller: Caller,
        texts: Sequence[str],
        options: Mapping[str, Any],
        *,
        store: bool = True,
    ) -> list[Translation]:
        """Translate texts.

        Cancelling the task cancels the work down to the decoder, if nobody else waits for it.

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
        ids, checked = _read_options(options)
        # Samples without a seed differ each time.
        keeps = store and caller.caches and (not sampled(checked) or "seed" in checked)
        if not keeps and not ids:
            return await self._ask(texts, checked)
        info, server = await self._server.confirmed()
        directions = Directions(
            info, checked.get("source_language"), checked.get("target_language")
        )
        found = await self._directions_of(texts, directions)
        detects = str(checked.get("source_language")).lower() == AUTO
        is_other = detects and not ids and info.version != __version__
        prefixes = len(checked.get("prefix", "1"))
        if found is None or is_other or not _fit(texts, info) or prefixes not in (1, len(texts)):
            return await self._ask(texts, checked)
        terms = await self._terms_of(caller, ids, checked, found, strict=not detects)
        segmenter = _Segmenter(checked, CacheKeys(server, _key_options(checked)), terms, keeps)
        parts = await segmenter.all_units(texts, found)
        units = {unit.key: unit for _, of_text in parts for unit in of_text}
        try:
            translated = await self._translated(units, checked, info, keeps)
        except InvalidInput as error:
            if not is_of_one_text(error):
                raise
            # Its number is that among what was sent; asked as it came, the server says the right
            # one.
            return await self._ask(texts, checked | await segmenter.all_terms(texts, found))
        wants_bundle = "return_bundle" in checked
        return [
            _finished(
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
        found = Directions(info, options.get("source_language"), options.get("target_language")).of(
            sample
        )
        if found is None:
            raise InvalidInput(
                "the language of the document is none that is translated, as it seems; name "
                "source_language if it is"
            )
        source, target = found.languages
        return {"source_language": source, "target_language": target}

    async def check_glossaries(self, caller: Caller, options: Mapping[str, Any]) -> None:
        """Refuse glossaries that a request cannot use.

        Raises:
            InvalidInput: one has no dictionary for the request's direction.
            NotFound: there is none.
        """
        ids, checked = _read_options(options)
        info, _ = await self._server.confirmed()
        direction = Directions(
            info, checked.get("source_language"), checked.get("target_language")
        ).of("")
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
            with _client_errors():
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

        The characters of the translations count too, as they are read by the model likewise.

        Raises:
            GatewayError: the request failed.
        """
        check_number(texts)
        async with self._access.admitted(caller, sum(map(len, (*texts, *targets)))):
            with _client_errors():
                return await _sent(lambda: self._requests.score(texts, targets, **options))

    async def detect(self, text: str) -> Detected:
        """The language of a text, among those that the server translates from.

        A language that the server does not know comes with the probability 0.

        Raises:
            GatewayError: the server cannot be asked for its languages.
        """
        sources = (await self.languages()).sources
        try:
            return detect_language(text, sources, detectable_languages())
        except OtherLanguage as error:
            return Detected(error.language, 0.0)
        except DragomanError as error:
            raise InvalidInput(str(error)) from error

    async def _ask(self, texts: Sequence[str], options: Mapping[str, Any]) -> list[Translation]:
        """Let the server translate; `options` are checked."""
        if len(texts) == 1 and can_be_merged(texts[0], options):
            return [await self._merging.translate(texts[0], options)]
        return await self._send(texts, options)

    async def _send(self, texts: Sequence[str], options: Mapping[str, Any]) -> list[Translation]:
        with _client_errors():
            return await _sent(lambda: self._requests.translate(texts, **options))

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
    ) -> _TermsPerDirection:
        """The terms of a request's glossaries for each direction of its texts."""
        given = options.get("glossary")
        inline = (TermIndex(given),) if given else ()
        found: _TermsPerDirection = {}
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
        directions = Directions(
            info, checked.get("source_language"), checked.get("target_language")
        )
        if (direction := directions.of(text)) is None:
            return checked
        detects = str(checked.get("source_language")).lower() == AUTO
        terms = await self._terms_of(caller, ids, checked, [direction], strict=not detects)
        segmenter = _Segmenter(checked, CacheKeys(server, {}), terms, keeps=False)
        return checked | await segmenter.all_terms([text], [direction])

    async def _translated(
        self,
        units: Mapping[bytes, _Unit],
        options: Mapping[str, Any],
        info: ServerInfo,
        keeps: bool,
        joins: bool = True,
    ) -> dict[bytes, Translation]:
        """The translations of units by key: of the cache, of other requests, or of the server."""
        found: dict[bytes, Translation] = {}
        joined: dict[bytes, Flight] = {}
        missing: list[_Unit] = []
        for key, unit in units.items():
            if keeps and joins and (kept := self._cache.get(key)) is not None:
                found[key] = kept
            elif keeps and joins and (flight := self._flights.find(key)) is not None:
                joined[key] = flight
            else:
                missing.append(unit)
        with ExitStack() as waiting:
            begun = []
            for group in _groups(missing):
                keys = [unit.key for unit in group]
                sending = self._ask_for(group, options, info, keeps)
                flight = self._flights.begin(sending, keys, joinable=keeps and joins)
                begun.append((keys, waiting.enter_context(flight)))
            for flight in dict.fromkeys(joined.values()):
                waiting.enter_context(flight)
            for keys, flight in begun:
                found |= zip(keys, await flight.translations(), strict=True)
            again: dict[bytes, _Unit] = {}
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
        self, units: Sequence[_Unit], options: Mapping[str, Any], info: ServerInfo, keeps: bool
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
                if one.bundle not in bundles:
                    self._server.forget()  # another model has taken its place meanwhile
                elif _FAULTS.isdisjoint(one.warnings) and one.attention is None:
                    self._cache.put(unit.key, one)
        return found


class _Server:
    """What the server says of itself, asked anew when that is old."""

    def __init__(self, translator: AsyncTranslator) -> None:
        self._translator = translator
        self._asking: asyncio.Task[None] | None = None
        self._confirmed_s = -_CONFIRMED_S
        self._fingerprint = b""
        self.known: ServerInfo | None = None

    async def confirmed(self) -> tuple[ServerInfo, bytes]:
        """What it says, and the fingerprint of that.

        Raises:
            GatewayError: it cannot be asked.
        """
        if time.monotonic() - self._confirmed_s > _CONFIRMED_S:
            if self._asking is None or self._asking.done():
                self._asking = asyncio.create_task(self._ask())
                self._asking.add_done_callback(lambda done: done.cancelled() or done.exception())
            await asyncio.shield(self._asking)
        assert self.known is not None
        return self.known, self._fingerprint

    def forget(self) -> None:
        """Ask anew the next time."""
        self._confirmed_s = -_CONFIRMED_S

    async def _ask(self) -> None:
        begin_s = time.monotonic()
        with _client_errors():
            found = await _sent(self._translator.info)
        if found != self.known:
            self.known, self._fingerprint = found, fingerprint(found)
        self._confirmed_s = begin_s


class _Segmenter:
    """How the texts of a request become units."""

    def __init__(
        self, options: Mapping[str, Any], keys: CacheKeys, terms: _TermsPerDirection, keeps: bool
    ) -> None:
        self._keys, self._terms = keys, terms
        self._prefixes: Sequence[str] = options.get("prefix", ())
        self._keeps_placeholders = "keep_placeholders" in options
        # Only what is kept is worth splitting.
        self._splits = (
            keeps
            and splits(options)
            and not sampled(options)
            and _OF_TEXTS.issuperset(requested_outputs(options))
        )
        # A long run without white space may be cut in two, if it has most tokens of a piece.
        self._uncut_bytes = max(1, options.get("max_sentence_tokens", _UNCUT_TOKENS) // 3)

    async def all_units(
        self, texts: Sequence[str], directions: Sequence[Direction]
    ) -> list[tuple[SegmentedText, list[_Unit]]]:
        """Texts that are split, and their units."""
        found = []
        for index, (text, direction) in enumerate(zip(texts, directions, strict=True)):
            if len(text) > _LONG_CHARACTERS:
                found.append(await asyncio.to_thread(self._units, text, direction, index))
            else:
                found.append(self._units(text, direction, index))
            if index % 64 == 63:
                await asyncio.sleep(0)
        return found

    async def all_terms(
        self, texts: Sequence[str], directions: Sequence[Direction]
    ) -> dict[str, Mapping[str, str]]:
        """The option `glossary` for all texts together, if any has a term."""
        found: dict[str, str] = {}
        for index, (text, direction) in enumerate(zip(texts, directions, strict=True)):
            terms = self._terms[direction.languages]
            if len(text) > _LONG_CHARACTERS:
                found |= await asyncio.to_thread(terms.occurring, text, self._uncut_bytes)
            else:
                found |= terms.occurring(text, self._uncut_bytes)
            if index % 64 == 63:
                await asyncio.sleep(0)
        return {"glossary": found} if found else {}

    def _units(
        self, text: str, direction: Direction, index: int
    ) -> tuple[SegmentedText, list[_Unit]]:
        """A text that is split, and its units."""
        languages = direction.languages
        segmented = whole(text)
        if self._splits:
            segmented = split(text, languages[0], self._keeps_placeholders)
        prefix = None
        if self._prefixes:
            prefix = self._prefixes[index if len(self._prefixes) > 1 else 0]
        units = []
        for one in segmented.units:
            terms = self._terms[languages].occurring(one, self._uncut_bytes)
            key = self._keys.key(one, languages, terms, prefix)
            units.append(_Unit(one, languages, terms, prefix, key))
        return segmented, units


def is_of_one_text(error: InvalidInput) -> bool:
    """Whether a text, and not an option, is what the server refuses."""
    return _OF_ONE_TEXT.match(str(error)) is not None


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
        raise InvalidInput(f"glossary_ids: {len(ids)} ids: give up to {_MOST_GLOSSARIES}")
    with _client_errors():
        if ids and not given.get("glossary"):
            # A glossary does not go with some options, whether a text has a term of it or not.
            check({**given, "glossary": {"a": "a"}})
        return tuple(ids), check(given)


def _key_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that keys depend on; to ask for the splitting that is usual changes nothing."""
    found = {name: value for name, value in options.items() if name not in _APART}
    return found | {"split_sentences": splits(options)}


def _fit(texts: Sequence[str], info: ServerInfo) -> bool:
    """Whether the server takes texts of such length; split they would pass."""
    lengths = [len(text) for text in texts]
    most, together = (info.limits.get(f"{name}_characters") for name in ("text", "request"))
    if most is not None and max(lengths) > most:
        return False
    return together is None or len(texts) == 1 or sum(lengths) <= together


def _groups(units: Sequence[_Unit]) -> Iterator[list[_Unit]]:
    """Units that go into one request: of one direction, with no more terms than it may have.

    Raises:
        InvalidInput: a unit alone has more.
    """
    by_direction: dict[tuple[str, str], list[_Unit]] = {}
    for unit in units:
        by_direction.setdefault(unit.languages, []).append(unit)
    for of_direction in by_direction.values():
        group: list[_Unit] = []
        terms: dict[str, str] = {}
        for unit in of_direction:
            both = {**terms, **unit.terms} if unit.terms else terms
            if len(both) > _MOST_TERMS and group:
                yield group
                group, both = [], dict(unit.terms)
            if len(both) > _MOST_TERMS:
                raise InvalidInput(
                    f"glossary: {len(both):,} terms occur in one text, more than {_MOST_TERMS:,}: "
                    "send it in parts"
                )
            group.append(unit)
            terms = both
        if group:
            yield group


def _finished(translation: Translation, direction: Direction, wants_bundle: bool) -> Translation:
    """A translation with what its request asked for."""
    detected = direction.detected
    if detected is None and wants_bundle:
        return translation
    return replace(
        translation,
        bundle=translation.bundle if wants_bundle else None,
        detected_language=detected.language or None if detected else None,
        detected_probability=detected.probability if detected else None,
    )


async def _sent(send: Callable[[], Awaitable[_Answer]]) -> _Answer:
    """The answer to a request, which is sent again if Triton is away.

    An overload is told at once: the client has retries of its own, and knows when to try again.
    """
    for pause_s in _PAUSES_S:
        try:
            return await send()
        except ServerUnavailable as error:
            if error.retry_after_s is not None:
                raise
        await asyncio.sleep(pause_s)
    return await send()


@contextmanager
def _client_errors() -> Generator[None, None, None]:
    """Errors of the client library as the gateway's."""
    try:
        yield
    except TranslationError as error:
        raise of_client(error) from error
    except (TypeError, ValueError) as error:
        raise InvalidInput(str(error)) from error
