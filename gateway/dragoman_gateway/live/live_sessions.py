"""Live sessions: their texts, owners, limits and expiry. They are in the memory of this process."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dragoman_options.table import AUTO

from dragoman_gateway.access.access import Access
from dragoman_gateway.access.shares import Budget, client_of
from dragoman_gateway.core.caller import Caller
from dragoman_gateway.core.errors import InvalidInput, NotFound, TooLarge
from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.live.growing_translation import (
    GrowingTranslation,
    Part,
    common_length,
    erased_words,
)
from dragoman_gateway.texts.translations import Translations

IDLE_S = 300.0
"""A session without an update for this long is removed."""
_LONGEST_S = 12 * 3600.0
TEXT_BYTES = 64 << 10
_LONG_CHARACTERS = 2000
"""Longer texts are split into sentences in a thread: it takes milliseconds."""
_NOT_LIVE = ("markup", "num_return_sequences", "prefix", "split_sentences", "max_sentence_tokens")


@dataclass(frozen=True)
class LiveUpdate:
    """The answer to an update.

    Attributes:
        sequence: number of the update, from 1.
        translation: the translation so far.
        revisable: its end that later updates may change.
        erased_words: number of words of the last translation that this one does not have.
    """

    sequence: int
    translation: str
    revisable: str
    erased_words: int


class LiveSession:
    """A text that grows, and its translation.

    Attributes:
        id: id of the session, which cannot be guessed.
        languages: source and target language.
        owner: name of the caller that created it.
        client: name of the client whose share it uses.
        began_s: when it was created.
        used_s: when it was last used.
    """

    def __init__(
        self,
        caller: Caller,
        client: str,
        languages: tuple[str, str],
        options: Mapping[str, Any],
        state: GrowingTranslation,
        now_s: float,
    ) -> None:
        """Start with an empty text; see `LiveSessions.create`."""
        self.id, self.owner, self.client = secrets.token_hex(16), caller.name, client
        self.languages, self._options, self._state = languages, options, state
        self.began_s = self.used_s = now_s
        self._latest = LiveUpdate(0, "", "", 0)
        self._updating = asyncio.Lock()

    async def update(
        self,
        access: Access,
        translations: Translations,
        caller: Caller,
        *,
        text: str | None = None,
        append: str | None = None,
        finish: bool = False,
        sequence: int | None = None,
    ) -> LiveUpdate:
        """Translate the text with a change; an update that fails changes nothing.

        Args:
            access: admits the caller, and counts the characters that are new in the text.
            translations: translates sentences.
            caller: the sender.
            text: the whole text so far.
            append: what to add to the text.
            finish: whether the last sentence has ended.
            sequence: number of the update; that of the last one gets the same answer again.

        Raises:
            GatewayError: the update failed.
        """
        async with self._updating:
            latest, state = self._latest, self._state
            if sequence == latest.sequence and sequence:
                async with access.admitted(caller, 0):
                    return latest
            if sequence not in (None, latest.sequence + 1):
                raise InvalidInput(f"sequence is {sequence}: give {latest.sequence + 1}")
            if text is not None and append is not None:
                raise InvalidInput("text and append: give one of them")
            source = state.source + (append or "") if text is None else text
            if not source.startswith(state.source[: state.begin]):
                raise InvalidInput(
                    f"text: its first {state.begin:,} characters are of sentences that have ended: "
                    "only the last sentence may change"
                )
            if len(source.encode()) > TEXT_BYTES:
                raise TooLarge(f"the text has more than {TEXT_BYTES:,} bytes: begin a new session")
            begin = state.begin
            added = len(source) - begin - common_length(source[begin:], state.source[begin:])
            async with access.admitted(caller, added):
                if source != state.source or finish:
                    state = await self._after(translations, caller, source, finish)
            growing = len(self._state.finished)
            erased = erased_words(self._state.text[growing:], state.text[growing:])
            self._state = state
            self._latest = LiveUpdate(latest.sequence + 1, state.text, state.revisable, erased)
            return self._latest

    async def _after(
        self, translations: Translations, caller: Caller, source: str, finish: bool
    ) -> GrowingTranslation:
        """Returns the state with another text."""

        def parts() -> list[Part]:
            return self._state.parts(source, self.languages[0], finish=finish)

        is_long = len(source) - self._state.begin > _LONG_CHARACTERS
        to_translate = await asyncio.to_thread(parts) if is_long else parts()
        texts = await asyncio.gather(
            *(self._translated(translations, caller, part) for part in to_translate)
        )
        return self._state.after(source, to_translate, texts)

    async def _translated(self, translations: Translations, caller: Caller, part: Part) -> str:
        options = dict(self._options)
        if part.prefix:
            options["prefix"] = part.prefix + " "  # its last word is complete
        try:
            (translation,) = await translations.translate_admitted(
                caller, [part.text], options, store=not part.is_last
            )
        except InvalidInput:
            if not part.prefix:
                raise
            # The prefix is too long, or has a character that the model cannot write.
            (translation,) = await translations.translate_admitted(
                caller, [part.text], self._options, store=False
            )
        return translation.text


class LiveSessions:
    """The sessions of all callers.

    `update` and `delete` raise `NotFound` for a session that does not exist, has expired, or
    belongs to another caller.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        access: Access,
        translations: Translations,
    ) -> None:
        """Start without sessions."""
        self._access, self._translations = access, translations
        self._held = Budget.of("live sessions", settings.live_sessions, settings)
        self._sessions: dict[str, LiveSession] = {}

    @property
    def number(self) -> int:
        """The number of sessions, which may have expired."""
        return len(self._sessions)

    async def create(
        self,
        caller: Caller,
        address: str,
        options: Mapping[str, Any],
        *,
        revise: int = 0,
        revise_sentences: bool = False,
    ) -> LiveSession:
        """Create a session.

        Args:
            caller: its owner.
            address: network address of the client, behind trusted proxies.
            options: options of the option table, by name, and `glossary_ids`.
            revise: how many words at the end of the translation an update may change.
            revise_sentences: whether a sentence may change when it ends.

        Raises:
            GatewayError: an option is not possible here, or there are too many sessions.
        """
        for name in options:
            if name in _NOT_LIVE or name.startswith("return_"):
                raise InvalidInput(f"{name}: not in a live session", "unsupported", name)
        if options.get("source_language") == AUTO:
            raise InvalidInput(
                "source_language: name it: the beginning of a sentence is too short to detect it",
                "language",
                "source_language",
            )
        languages = await self._translations.check_direction(options)
        await self._translations.check_glossaries(caller, options)
        self._remove_expired()
        client = client_of(caller, address)
        self._held.hold(client)
        state = GrowingTranslation(revise, revise_sentences)
        session = LiveSession(caller, client, languages, options, state, time.monotonic())
        self._sessions[session.id] = session
        return session

    async def update(self, caller: Caller, session_id: str, **change: Any) -> LiveUpdate:
        """Update the text of a session; see `LiveSession.update`."""
        session = self._find(caller, session_id)
        session.used_s = time.monotonic()
        return await session.update(self._access, self._translations, caller, **change)

    def delete(self, caller: Caller, session_id: str) -> None:
        """Delete a session."""
        self.remove(self._find(caller, session_id))

    def remove(self, session: LiveSession) -> None:
        """Remove a session, unless it was removed before."""
        if self._sessions.pop(session.id, None) is not None:
            self._held.let_go(session.client)

    def _find(self, caller: Caller, session_id: str) -> LiveSession:
        self._remove_expired()
        session = self._sessions.get(session_id)
        if session is None or session.owner != caller.name:
            raise NotFound("there is no such session: it may have expired, so create another one")
        return session

    def _remove_expired(self) -> None:
        now_s = time.monotonic()
        for session in [*self._sessions.values()]:
            if now_s > min(session.used_s + IDLE_S, session.began_s + _LONGEST_S):
                self.remove(session)
