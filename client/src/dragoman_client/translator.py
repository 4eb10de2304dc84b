"""The client that applications use.

Knows how texts are spread over requests; must not know tensors or sockets.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self, Unpack, overload

from dragoman_client.access import FilePath
from dragoman_client.errors import InvalidRequest, TranslationError
from dragoman_client.file_translation import FileProgress, translate_file
from dragoman_client.health import Health, languages_of
from dragoman_client.line_formats import LineFormat, PlainLines
from dragoman_client.options import Array, OptionArguments, TranslationOptions
from dragoman_client.pair_scoring import Pairs, PairScore, ScoringArguments
from dragoman_client.request import (
    SCORE_MODEL,
    Part,
    Translation,
    build_inputs,
    build_stream_inputs,
    read_outputs,
)
from dragoman_client.retrying import DEFAULT_RETRIES, with_retries
from dragoman_client.settings import ClientSettings, Compression, check_batching
from dragoman_client.transport import Transport, open_transport

DEFAULT_URL = "grpc://localhost:8001"
"""Where Triton listens unless told otherwise."""


class Translator:
    """A connection to a Dragoman server; several threads may share one.

    Options of a translation are keyword arguments: `source_language`, `target_language`,
    `max_tokens`, `beam_width`, `length_penalty`, `split_sentences`; see `TranslationOptions`.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        timeout_s: float = 30.0,
        retries: int = DEFAULT_RETRIES,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        ca_file: FilePath | None = None,
        certificate_file: FilePath | None = None,
        key_file: FilePath | None = None,
        compression: Compression | None = None,
        transport: Transport | None = None,
    ) -> None:
        """Prepare a connection, which the first request makes.

        Args:
            url: `grpc://host:port` or `http://host:port`; `grpcs` and `https` are with TLS.
            timeout_s: longest time for a request with its retries, after which the server gives it
                up too. Over HTTP it bounds each wait for the server.
            retries: how often a request is sent again that no server could take
                (`ServerUnavailable`), after pauses that grow, or as long as the server asks to
                wait. By default they outlast a server that restarts.
            token: sent as `Authorization: Bearer ...`.
            headers: more headers of HTTP, or metadata of gRPC, of every request.
            ca_file: certificates, in PEM, of those who may vouch for the server, instead of the
                system's.
            certificate_file: the client's own certificate, in PEM, where the server asks for one.
            key_file: its private key, in PEM.
            compression: "gzip" or "deflate", over gRPC, where the network is slower than packing.
            transport: another way to the server, instead of the URL's; closed with the translator.

        Raises:
            TypeError: a timeout that is no number.
            ValueError: a URL that names no server, a timeout that is not positive, a header that
                cannot be sent, or a file that does not hold what it should.
        """
        self._settings = ClientSettings.of(
            timeout_s, retries, token, headers, ca_file, certificate_file, key_file, compression
        )
        self._transport = transport or open_transport(url, self._settings)
        self._closed = False

    def __enter__(self) -> Self:
        """The translator itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Let go of the connections; the translator is of no use any more."""
        self._closed = True
        self._transport.close()

    def is_ready(self) -> bool:
        """Whether the server can translate now; False as well where nothing answers."""
        return self.health().ready

    def health(self) -> Health:
        """Whether the server can translate now, and if not, why; no error of the server's."""
        self._check_open()
        try:
            return Health.of(self._transport.is_ready())
        except TranslationError as error:
            return Health(False, str(error))

    def languages(self) -> tuple[str, ...]:
        """The languages between which the server translates, such as "en" and "de".

        Raises:
            TranslationError: the server could not be asked, or does not say.
        """
        self._check_open()
        return languages_of(self._transport.config())

    # A str is a sequence of str too; the order of the overloads decides.
    @overload
    def translate(  # type: ignore[overload-overlap]
        self, texts: str, **options: Unpack[OptionArguments]
    ) -> Translation: ...

    @overload
    def translate(
        self, texts: Sequence[str], **options: Unpack[OptionArguments]
    ) -> list[Translation]: ...

    def translate(
        self, texts: str | Sequence[str], **options: Unpack[OptionArguments]
    ) -> Translation | list[Translation]:
        """Translate a text, or several in one request.

        Args:
            texts: a text, or several; for many use `translate_batches`.
            **options: see `TranslationOptions`; what is left out is the server's choice.

        Returns:
            One translation for a text; for several a list in their order.

        Raises:
            TypeError: something that is no text, or an option of another type.
            ValueError: an option out of range.
            TranslationError: the request failed; see `dragoman_client.errors`.
        """
        self._check_open()
        if isinstance(texts, str):
            return self._send([texts], TranslationOptions(**options))[0]
        if not isinstance(texts, Sequence) or isinstance(texts, bytes | bytearray):
            raise TypeError(f"texts must be str or a sequence of str, got {type(texts).__name__}")
        checked = TranslationOptions(**options)
        return self._send(texts, checked) if texts else []

    @overload
    def score(  # type: ignore[overload-overlap]
        self, texts: str, targets: str, **options: Unpack[ScoringArguments]
    ) -> PairScore: ...

    @overload
    def score(
        self, texts: Sequence[str], targets: Sequence[str], **options: Unpack[ScoringArguments]
    ) -> list[PairScore]: ...

    def score(
        self,
        texts: str | Sequence[str],
        targets: str | Sequence[str],
        **options: Unpack[ScoringArguments],
    ) -> PairScore | list[PairScore]:
        """Ask what the model thinks of given translations.

        Args:
            texts: a text, or several, which go in one request.
            targets: a translation of it, or of each of them.
            **options: `source_language`, `target_language`, `length_penalty`,
                `return_token_scores`, `return_alignments`, `return_attention`; see
                `TranslationOptions`.

        Returns:
            One score for a text; for several a list in their order.

        Raises:
            TypeError: something that is no text, or an option of another type.
            ValueError: an option out of range, or not a translation for each text.
            TranslationError: the request failed; see `dragoman_client.errors`.
        """
        self._check_open()
        pairs = Pairs.of(texts, targets, options)
        if not pairs.texts:
            return []
        begin_s = time.monotonic()
        send = functools.partial(self._transport.infer, pairs.inputs(), model=SCORE_MODEL)
        answer = with_retries(send, self._settings.tries())
        return pairs.read(answer, time.monotonic() - begin_s)

    def translate_stream(
        self, text: str, **options: Unpack[OptionArguments]
    ) -> Iterator[Translation]:
        """Translate a text whose translation can be read as it grows.

        Args:
            text: a text.
            **options: see `TranslationOptions`; greedy search (`beam_width=1`) grows token by
                token, beam search by what all its hypotheses have in common.

        Returns:
            Translations, each with the text as far as it is certain; the last one is what
            `translate` returns, the others have an empty `finish_reason`. Closing the iterator
            gives the translation up; over gRPC the server goes on, since a cancelled stream can
            crash Triton 24.10.

        Raises:
            TypeError: something that is no text, or an option of another type.
            ValueError: an option out of range.
            TranslationError: while iterating: the request failed.
        """
        self._check_open()
        inputs = build_stream_inputs(text, TranslationOptions(**options))
        return self._parts(inputs)

    def _parts(self, inputs: Mapping[str, Array]) -> Iterator[Translation]:
        def begin(timeout_s: float) -> tuple[Part, Generator[Part, None, None]]:
            parts = self._transport.stream(inputs, timeout_s)
            return next(parts), parts  # what fails later has been read in part

        begin_s = time.monotonic()
        first, parts = with_retries(begin, self._settings.tries())
        with contextlib.closing(parts):
            for part in itertools.chain([first], parts):
                yield read_outputs(part, 1, time.monotonic() - begin_s)[0]

    def translate_batches(
        self,
        texts: Iterable[str],
        *,
        batch_size: int = 32,
        concurrency: int = 2,
        **options: Unpack[OptionArguments],
    ) -> Iterator[Translation]:
        """Translate any number of texts in constant memory.

        Args:
            texts: read in this thread and only a little ahead of what has been handed out.
            batch_size: texts in a request.
            concurrency: requests under way at once. With 1, each is answered before more texts
                are read, as a dialogue needs; with more, twice as many batches are read ahead.
            **options: see `TranslationOptions`; what is left out is the server's choice.

        Returns:
            Translations in the order of the texts.

        Raises:
            TypeError: an option of another type; while iterating, something that is no text.
            ValueError: an option out of range.
            TranslationError: while iterating: a request failed, and those after it are given up.
        """
        self._check_open()
        check_batching(texts, batch_size, concurrency)
        # Not a generator itself, so that wrong options are told here and not at the first text.
        return self._stream(texts, batch_size, concurrency, TranslationOptions(**options))

    def translate_file(
        self,
        source: FilePath,
        target: FilePath,
        *,
        form: LineFormat | None = None,
        batch_size: int = 32,
        concurrency: int = 2,
        resume: bool = False,
        tell: Callable[[FileProgress], None] = lambda _: None,
        refuse: Callable[[int, InvalidRequest], None] = lambda number, error: None,
        **options: Unpack[OptionArguments],
    ) -> FileProgress:
        """Translate a file line by line into another one, in constant memory.

        What is written stands in `TARGET.partial` until it is whole.

        Args:
            source: in UTF-8.
            target: written anew; a line for each of the source's.
            form: of its lines; None: `PlainLines`. Of a `Document` they are paragraphs.
            batch_size: lines in a request.
            concurrency: requests under way at once.
            resume: go on with what an interrupted call has written.
            tell: called after each line.
            refuse: called with the number of a line that the server refused, and why; the line is
                left empty.
            **options: see `TranslationOptions`; what is left out is the server's choice.

        Returns:
            What was done.

        Raises:
            OSError: a file cannot be read or written.
            TypeError: an option of another type.
            TranslationError: a request failed; what was written stays, to be resumed.
            ValueError: an option out of range, a line that is not of the format, or what is to be
                resumed belongs to something else.
        """
        self._check_open()
        TranslationOptions(**options)
        return translate_file(
            self,
            Path(source),
            Path(target),
            form=form or PlainLines(),
            batch_size=batch_size,
            concurrency=concurrency,
            resume=resume,
            options=options,
            tell=tell,
            refuse=refuse,
        )

    def _stream(
        self, texts: Iterable[str], batch_size: int, concurrency: int, options: TranslationOptions
    ) -> Iterator[Translation]:
        """Keep a window of requests under way and hand out their answers in order."""
        # Twice the threads, so that a slow first request does not leave the others idle.
        window = 1 if concurrency == 1 else 2 * concurrency
        pending: collections.deque[Future[list[Translation]]] = collections.deque()
        executor = ThreadPoolExecutor(concurrency, thread_name_prefix="dragoman-client")
        try:
            for start, batch in _batches(texts, batch_size):
                pending.append(executor.submit(self._send, batch, options, start))
                while pending and (len(pending) >= window or pending[0].done()):
                    yield from pending.popleft().result()
            while pending:
                yield from pending.popleft().result()
        finally:
            # No wait: after an error nobody wants the answers that are still to come.
            executor.shutdown(wait=False, cancel_futures=True)

    def _send(
        self, texts: Sequence[str], options: TranslationOptions, first_index: int = 0
    ) -> list[Translation]:
        """One request."""
        begin_s = time.monotonic()
        inputs = build_inputs(texts, options, first_index)
        send = functools.partial(self._transport.infer, inputs)
        answer = with_retries(send, self._settings.tries())
        return read_outputs(answer, len(texts), time.monotonic() - begin_s, options)

    def _check_open(self) -> None:
        """Refuse work after `close`."""
        if self._closed:
            raise RuntimeError("this Translator is closed")


def _batches(texts: Iterable[str], batch_size: int) -> Iterator[tuple[int, list[str]]]:
    """Lists of texts, each with the index of its first."""
    iterator = iter(texts)
    for start in itertools.count(0, batch_size):
        batch = list(itertools.islice(iterator, batch_size))
        if not batch:
            return
        yield start, batch
