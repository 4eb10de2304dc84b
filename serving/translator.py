"""From texts to translations: checks a request, numbers its texts, asks the engine, joins answers.

Knows the bundle, the tokenizer and the engine; must not know Triton.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as brief

from dragoman.errors import UsageError
from dragoman.hypothesis import Hypothesis
from dragoman.manifest import Manifest
from dragoman.text import Tokenizer, split_sentences
from serving.engine.engine import EngineFailure
from serving.engine.loading import (
    open_engine,
)
from serving.engine.sentence import SearchOptions, Sentence
from serving.engine.settings import EngineSettings
from serving.engine.statistics import Counts
from serving.futures import when_all_done
from serving.language import OtherLanguage, detect_language
from serving.request_options import InvalidRequest, RequestOptions, search_options
from serving.streaming import TextStream

AUTO = "auto"
MAX_TEXT_CHARACTERS = 100_000
"""A longer text is refused before it is tokenized."""
MAX_REQUEST_CHARACTERS = 2_000_000
"""All texts of a request together; one request's work must not hold up the others for long."""
_PIECES_OF_ONE = 2
"""Of a text that was not split: a sentence, and nothing behind it."""
_IDS_OF_NOTHING = 2
"""The tag and the end symbol alone."""


@dataclass(frozen=True)
class Terms:
    """When a request's translation is wanted.

    Of two that wait, the one of higher `priority` goes first. After `deadline_s`, on the clock of
    `time.monotonic`, it is not wanted any more.
    """

    priority: int = 0
    deadline_s: float | None = None


@dataclass(frozen=True)
class Translation:
    """A translated text; `complete` is false where the token limit cut one of its sentences.

    `score` is that of `Hypothesis`; None of greedy search, and of a text of several sentences.
    `others` are further translations of the text, as many as were asked for, best first.
    """

    text: str
    output_tokens: int
    complete: bool
    score: float | None = None
    others: tuple[Translation, ...] = ()


@dataclass(frozen=True)
class Load:
    """How busy an engine is at this moment."""

    waiting: int
    rows: int
    most_rows: int
    cache_bytes: int


class Translator:
    """A bundle, ready to translate."""

    def __init__(
        self,
        bundle: Path,
        settings: EngineSettings | None = None,
        on_failure: Callable[[EngineFailure], None] | None = None,
    ) -> None:
        """Check and load a bundle, and start its engine.

        Args:
            bundle: folder of the bundle.
            settings: how to lay the engine out.
            on_failure: called once if the engine breaks.

        Raises:
            UsageError: the bundle is damaged, or does not fit this program.
        """
        self.manifest = Manifest.load(bundle)
        self._tokenizer = Tokenizer(bundle / self.manifest.tokenizer)
        if self._tokenizer.vocab_size != self.manifest.dimensions.vocab_size:
            raise UsageError(
                f"{bundle / self.manifest.tokenizer}: has {self._tokenizer.vocab_size} entries, "
                f"the manifest says {self.manifest.dimensions.vocab_size}"
            )
        for language, tag_id in self.manifest.special_ids.tags.items():
            if self._tokenizer.tag_id(language) != tag_id:
                raise UsageError(
                    f"{bundle / self.manifest.tokenizer}: the tag of {language!r} has id "
                    f"{self._tokenizer.tag_id(language)}, the manifest says {tag_id}"
                )
        self._settings = settings or EngineSettings()
        opened = open_engine(bundle, self.manifest, self._settings, on_failure=on_failure)
        self._engine, self.layout, self._limits = opened.engine, opened.layout, opened.limits

    def translate(
        self, texts: Sequence[str], options: RequestOptions | None = None
    ) -> list[Translation]:
        """Translate texts and wait for them.

        Raises:
            DragomanError: as `submit`, or the engine failed.
        """
        return self.submit(texts, options or RequestOptions()).result()

    def submit(
        self, texts: Sequence[str], options: RequestOptions, terms: Terms | None = None
    ) -> Future[list[Translation]]:
        """Begin to translate texts.

        Returns:
            A future of one translation a text, in their order. Cancelling it gives them up.

        Raises:
            InvalidRequest: a text or an option cannot be served.
            Overloaded: too many sentences are waiting.
            Closed: the translator was closed.
        """
        if not texts:
            raise InvalidRequest("text_input is empty: give at least one text")
        characters = sum(map(len, texts))
        if len(texts) > 1 and characters > MAX_REQUEST_CHARACTERS:
            raise InvalidRequest(
                f"the texts have {characters} characters together, more than "
                f"{MAX_REQUEST_CHARACTERS}: send fewer in a request"
            )
        pieces = self._pieces_of_all(texts, options, terms or Terms())
        sentences = self._sentences(pieces)
        futures = self._engine.submit(sentences)
        return when_all_done(futures, lambda found: self._join(pieces, found))

    def stream(
        self,
        text: str,
        options: RequestOptions,
        changed: Callable[[], None],
        terms: Terms | None = None,
    ) -> TextStream:
        """Begin to translate a text whose translation can be read as it grows.

        Args:
            text: what to translate.
            options: see `RequestOptions`.
            changed: called in the engine's thread when there may be more to read, and at the end.
            terms: see `Terms`.

        Raises:
            DragomanError: as `submit`.
        """
        (pieces,) = self._pieces_of_all([text], options, terms or Terms())
        stream = TextStream(pieces, self._tokenizer.decode, changed)
        sentences = self._sentences([pieces])
        futures = self._engine.submit(sentences, stream.reports(len(sentences)))
        stream.follow(futures)
        stream.future = when_all_done(futures, lambda found: self._join([pieces], found))
        stream.future.add_done_callback(lambda _: changed())
        return stream

    @property
    def description(self) -> str:
        """One line: how the engine is laid out, and the most that its caches may take."""
        limits = self.manifest.limits
        most = self._engine.most_bytes(limits.max_source_tokens, limits.max_target_tokens)
        return (
            f"{self.layout.precision} ({self.layout.runtime}), {self._engine.workers} workers of "
            f"{self._limits.rows} rows, caches of at most {most / 1e6:.0f} MB "
            f"for each beam width in use, {self._limits.waiting} sentences may wait"
        )

    @property
    def load(self) -> Load:
        """How busy the engine is."""
        engine = self._engine
        return Load(engine.waiting, engine.rows, engine.most_rows, engine.nbytes)

    @property
    def counts(self) -> Counts:
        """What the engine has done so far."""
        return self._engine.statistics.counts

    def close(self) -> None:
        """Finish what was submitted, then stop."""
        self._engine.close()

    def _direction(self, index: int, text: str, options: RequestOptions) -> tuple[str, str]:
        """The languages of a text whose source language is to be found out."""
        known, target = self.manifest.languages, options.target_language
        try:
            source = detect_language(text, [one for one in known if one != target], known)
        except OtherLanguage as error:
            raise InvalidRequest(f"text {index} {error}; name source_language if not") from error
        except UsageError as error:
            raise InvalidRequest(str(error)) from error
        return self._learnt(source, target)

    def _languages(self, options: RequestOptions) -> tuple[str, str]:
        known = self.manifest.languages
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
        for src, tgt in self.manifest.all_directions:
            if source in (None, src) and target in (None, tgt):
                return src, tgt
        learnt = ", ".join("-".join(direction) for direction in self.manifest.all_directions)
        raise InvalidRequest(
            f"the model does not translate from {source!r} into {target!r}: it knows {learnt}"
        )

    def _sentences(self, pieces: Sequence[Sequence[Sentence | str]]) -> list[Sentence]:
        found = [piece for of_text in pieces for piece in of_text if isinstance(piece, Sentence)]
        if len(found) > self._limits.waiting:
            raise InvalidRequest(
                f"{len(found)} sentences in one request, more than {self._limits.waiting}: "
                "send fewer"
            )
        return found

    def _pieces_of_all(
        self, texts: Sequence[str], options: RequestOptions, terms: Terms
    ) -> list[list[Sentence | str]]:
        languages = self._languages(options)
        search = search_options(options, self.manifest.limits)
        found = []
        for index, text in enumerate(texts):
            _check_length(index, text)
            if options.source_language == AUTO:
                languages = self._direction(index, text, options)
            found.append(self._pieces(index, text, *languages, options, search, terms))
        return found

    def _pieces(
        self,
        index: int,
        text: str,
        source: str,
        target: str,
        options: RequestOptions,
        search: SearchOptions,
        terms: Terms,
    ) -> list[Sentence | str]:
        """A text as sentences to translate and strings to keep as they are."""
        limits = self.manifest.limits
        pieces: list[Sentence | str] = []
        parts = split_sentences(text, source) if options.split_sentences else [(text, "")]
        for part, space in parts:
            src_ids = self._tokenizer.encode_source(part, target)
            if len(src_ids) == _IDS_OF_NOTHING:
                pieces.append(part + space)
                continue
            if len(src_ids) > limits.max_source_tokens:
                raise InvalidRequest(
                    f"text {index} has {len(src_ids)} tokens, more than "
                    f"{limits.max_source_tokens}: shorten it"
                    + ("" if options.split_sentences else ", or set split_sentences")
                )
            max_tokens = options.max_tokens or limits.target_tokens(len(src_ids))
            pieces += [
                Sentence(tuple(src_ids), max_tokens, search, terms.priority, terms.deadline_s),
                space,
            ]
        if not any(isinstance(piece, Sentence) for piece in pieces):
            raise InvalidRequest(f"text {index} is empty")
        return pieces

    def _join(
        self, pieces: Sequence[Sequence[Sentence | str]], found: Sequence[Hypothesis]
    ) -> list[Translation]:
        remaining = iter(found)
        translations = []
        for of_text in pieces:
            if len(of_text) == _PIECES_OF_ONE and isinstance(of_text[0], Sentence):
                translations.append(self._translation(next(remaining)))
                continue
            text, tokens, complete = "", 0, True
            for piece in of_text:
                if isinstance(piece, str):
                    text += piece
                    continue
                hypothesis = next(remaining)
                text += self._tokenizer.decode(hypothesis.ids)
                tokens += len(hypothesis.ids)
                complete &= hypothesis.complete
            translations.append(Translation(text, tokens, complete))
        return translations

    def _translation(self, found: Hypothesis) -> Translation:
        """A text that is one sentence."""
        return Translation(
            self._tokenizer.decode(found.ids),
            len(found.ids),
            found.complete,
            found.score,
            tuple(map(self._translation, found.others)),
        )


def _check_length(index: int, text: str) -> None:
    """Refuse a text that is too long to be looked at.

    Raises:
        InvalidRequest: it is.
    """
    if len(text) > MAX_TEXT_CHARACTERS:
        raise InvalidRequest(
            f"text {index} has {len(text)} characters, more than {MAX_TEXT_CHARACTERS}: "
            "send it in parts"
        )
