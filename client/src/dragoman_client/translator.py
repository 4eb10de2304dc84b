"""The client that applications use; it blocks."""

from __future__ import annotations

import time
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self, Unpack, overload

from dragoman_options.arguments import OptionArguments, ScoringArguments
from dragoman_options.markup import Markup

from dragoman_client.access import FilePath
from dragoman_client.blocking import AwaitableTransport, ThreadPool, awaitable, run, run_each
from dragoman_client.document_translation import (
    FORMATS,
    MarkupFormat,
    translate_document,
)
from dragoman_client.errors import InvalidRequest
from dragoman_client.exchange import Exchange
from dragoman_client.file_translation import FileProgress, translate_file
from dragoman_client.grpc_transport import BlockingGrpcTransport
from dragoman_client.health import Health
from dragoman_client.http_connections import BlockingConnections
from dragoman_client.http_transport import HttpTransport
from dragoman_client.line_formats import LineFormat, PlainLines
from dragoman_client.pair_scoring import PairScore
from dragoman_client.request import Translation
from dragoman_client.retrying import DEFAULT_RETRIES
from dragoman_client.server_info import ServerInfo
from dragoman_client.settings import ClientSettings, Compression, check_batch_options
from dragoman_client.transport import AsyncTransport, Transport

DEFAULT_URL = "grpc://localhost:8001"
"""Where Triton listens by default."""


class Translator:
    """A connection to a Dragoman server; several threads may share one.

    Options of a translation are keyword arguments, such as `target_language="de"`; docs/options.md
    has them all.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        timeout_s: float = 30.0,
        retries: int = DEFAULT_RETRIES,
        token: str | None = None,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        ca_file: FilePath | None = None,
        certificate_file: FilePath | None = None,
        key_file: FilePath | None = None,
        compression: Compression | None = None,
        transport: Transport | None = None,
    ) -> None:
        """Prepare a connection, which the first request makes.

        Args:
            url: `grpc://host:port` of Triton, or `http://host:port` of a gateway or of Triton,
                which is asked once what it is; `grpcs` and `https` are with TLS. Without a scheme
                it is HTTP, or gRPC at port 8001 or without a port.
            timeout_s: longest time for a request with its retries, after which the server cancels
                it too. Over HTTP it bounds each wait for the server.
            retries: how often a request is sent again that no server could take
                (`ServerUnavailable`), after pauses that grow, or as long as the server asks to
                wait. By default they outlast a server that restarts.
            token: sent as `Authorization: Bearer ...`.
            api_key: of a gateway, likewise; give one of both.
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
        settings = ClientSettings.of(
            timeout_s,
            retries,
            token,
            api_key,
            headers,
            ca_file,
            certificate_file,
            key_file,
            compression,
        )
        way: AsyncTransport
        if transport is not None:
            way = AwaitableTransport(transport)
        else:
            address = settings.address(url)
            if address.is_grpc:
                way = BlockingGrpcTransport(address, settings)
            else:
                way = HttpTransport(BlockingConnections(address, settings))
        self._exchange = Exchange(way, settings, awaitable(time.sleep), ThreadPool)

    def __enter__(self) -> Self:
        """The translator itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Let go of the connections; the translator is of no use any more."""
        run(self._exchange.close())

    def is_ready(self) -> bool:
        """Whether the server can translate now; False as well where nothing answers."""
        return self.health().ready

    def health(self) -> Health:
        """Whether the server can translate now, and if not, why; no error of the server's."""
        return run(self._exchange.health())

    def languages(self) -> tuple[str, ...]:
        """The languages between which the server translates, such as "en" and "de".

        Raises:
            TranslationError: the server could not be asked, or does not say.
        """
        return run(self._exchange.languages())

    def info(self) -> ServerInfo:
        """What the server is, what it serves, and which options it takes.

        Raises:
            TranslationError: the server could not be asked, or does not say.
        """
        return run(self._exchange.info())

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
            **options: see `OptionArguments`; what is left out is the server's choice.

        Returns:
            One translation for a text; for several a list in their order.

        Raises:
            TypeError: something that is no text, or an option of another type.
            ValueError: an option out of range.
            TranslationError: the request failed; see `dragoman_client.errors`.
        """
        return run(self._exchange.translate(texts, **options))

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
            **options: see `ScoringArguments`.

        Returns:
            One score for a text; for several a list in their order.

        Raises:
            TypeError: something that is no text, or an option of another type.
            ValueError: an option out of range, or not a translation for each text.
            TranslationError: the request failed; see `dragoman_client.errors`.
        """
        return run(self._exchange.score(texts, targets, **options))

    def translate_stream(
        self, text: str, **options: Unpack[OptionArguments]
    ) -> Iterator[Translation]:
        """Translate a text whose translation can be read as it grows.

        Args:
            text: a text.
            **options: see `OptionArguments`; greedy search (`beam_width=1`) grows token by
                token, beam search by what all its hypotheses have in common.

        Returns:
            Translations, each with the text as far as it is certain; the last one is what
            `translate` returns, the others have an empty `finish_reason`. Closing the iterator
            cancels the translation; over gRPC the server finishes it, since a cancelled stream can
            crash Triton 24.10.

        Raises:
            TypeError: something that is no text, or an option of another type.
            ValueError: an option out of range.
            TranslationError: while iterating: the request failed.
        """
        return run_each(self._exchange.translate_stream(text, **options))

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
            **options: see `OptionArguments`; what is left out is the server's choice.

        Returns:
            Translations in the order of the texts.

        Raises:
            TypeError: an option of another type; while iterating, something that is no text.
            ValueError: an option out of range.
            TranslationError: while iterating: a request failed, and those after it are cancelled.
        """
        if isinstance(texts, AsyncIterable):
            raise TypeError("texts must be an iterable of str: use AsyncTranslator")
        return run_each(
            self._exchange.translate_batches(
                texts, batch_size=batch_size, concurrency=concurrency, **options
            )
        )

    def translate_file(
        self,
        source: FilePath,
        target: FilePath,
        *,
        form: LineFormat | MarkupFormat | None = None,
        batch_size: int = 32,
        concurrency: int = 2,
        resume: bool = False,
        force: bool = False,
        tell: Callable[[FileProgress], None] = lambda _: None,
        refuse: Callable[[int, InvalidRequest], None] = lambda number, error: None,
        **options: Unpack[OptionArguments],
    ) -> FileProgress:
        """Translate a file into another one, in constant memory.

        What is written stands in `TARGET.partial` until it is whole.

        Args:
            source: lines are in UTF-8; markup says its encoding.
            target: to write.
            form: of its lines; None: `PlainLines`. Of a `Document` they are paragraphs. Of "html",
                "xml" and "xliff" they are texts, each of which may have elements in it; all else
                stays as it is, byte for byte.
            batch_size: lines in a request.
            concurrency: requests under way at once.
            resume: go on with what an interrupted call has written; not with markup.
            force: replace a target that is there, and what an interrupted call has written.
            tell: called after each line.
            refuse: called with the number of a line that the server refused, and why; the line is
                left empty.
            **options: see `OptionArguments`; what is left out is the server's choice.

        Returns:
            What was done.

        Raises:
            FileExistsError: the target exists, or an interrupted call has written some of it.
            OSError: a file cannot be read or written.
            TypeError: an option of another type.
            TranslationError: a request failed; what was written stays, to be resumed.
            ValueError: an option out of range, a line that is not of the format, or what is to be
                resumed belongs to something else.
        """
        self._exchange._check_open()
        check_batch_options(options)
        if isinstance(form, str):
            return self._translate_markup(
                *(Path(source), Path(target), form, resume, force, tell, refuse), options
            )
        return translate_file(
            self,
            Path(source),
            Path(target),
            form=form or PlainLines(),
            batch_size=batch_size,
            concurrency=concurrency,
            resume=resume,
            force=force,
            options=options,
            tell=tell,
            refuse=refuse,
        )

    def _translate_markup(
        self,
        source: Path,
        target: Path,
        form: MarkupFormat,
        resume: bool,
        force: bool,
        tell: Callable[[FileProgress], None],
        refuse: Callable[[int, InvalidRequest], None],
        options: OptionArguments,
    ) -> FileProgress:
        """As `translate_file`, of a file with markup."""
        if form not in FORMATS:
            raise ValueError(f"form is {form!r}: give {', '.join(FORMATS)}")
        if resume:
            raise ValueError("resume: a document with markup is translated from its beginning")
        refused = cut = 0

        def note(number: int, error: InvalidRequest) -> None:
            nonlocal refused
            refused += 1
            refuse(number, error)

        def translate(texts: Sequence[str], markup: Sequence[Markup]) -> list[Translation]:
            nonlocal cut
            marked = OptionArguments(**{**options, "markup": markup})
            found = self.translate(texts, **marked)
            cut += sum(one.finish_reason == "length" for one in found)
            return found

        number = translate_document(
            *(source, target, form, options, translate),
            force=force,
            refuse=note,
            tell=lambda done, of: tell(FileProgress(done, of, 0, refused, cut)),
        )
        return FileProgress(number, number, 0, refused, cut)
