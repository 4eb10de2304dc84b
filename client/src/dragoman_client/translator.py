"""The blocking client."""

from __future__ import annotations

import time
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Self, Unpack, overload

from dragoman_documents.core.suggestions import Suggestions
from dragoman_options.arguments import OptionArguments, ScoringArguments
from dragoman_options.markup import Markup
from dragoman_options.table import Translation

from dragoman_client.core.access import FilePath
from dragoman_client.core.errors import InvalidRequest
from dragoman_client.core.health import Health
from dragoman_client.core.pair_scoring import PairScore
from dragoman_client.core.server_info import ServerInfo
from dragoman_client.core.settings import ClientSettings, Compression, check_batch_options
from dragoman_client.exchange import Exchange
from dragoman_client.files.document_translation import translate_document
from dragoman_client.files.file_formats import FormatName, Reading, open_reader
from dragoman_client.files.file_report import FileReport
from dragoman_client.files.file_translation import FileProgress, translate_file
from dragoman_client.files.line_formats import LineFormat, PlainLines
from dragoman_client.retrying import DEFAULT_RETRIES
from dragoman_client.transports.blocking import AwaitableTransport, awaitable, run, run_each
from dragoman_client.transports.engine_transport import BlockingEngineTransport
from dragoman_client.transports.grpc_transport import BlockingGrpcTransport
from dragoman_client.transports.http_connections import BlockingConnections
from dragoman_client.transports.http_transport import HttpTransport
from dragoman_client.transports.pools import ThreadPool
from dragoman_client.transports.transport import AsyncTransport, Transport

DEFAULT_URL = "grpc://localhost:8001"
"""Triton's default address for gRPC."""


class Translator:
    """A connection to a Dragoman server; several threads may share one.

    The options of a translation are keyword arguments, such as `target_language="de"`;
    docs/options.md lists them all.
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
        """Prepare a connection; the first request opens it.

        Args:
            url: `grpc://host:port` of Triton, or `http://host:port` of a gateway or of Triton; the
                client asks an HTTP server once which of the two it is. `grpcs` and `https` use
                TLS. A URL without a scheme means gRPC if its port is 8001 or missing, else HTTP.
                `unix:/path` is the socket of an engine of the same user on this machine, and
                `unix:/path,/path` are those of several engines of a server.
            timeout_s: timeout of a request including its retries, after which the server cancels
                it too. Over HTTP it limits each wait for the server.
            retries: how often the client retries a request that no server accepted
                (`ServerUnavailable`). The pauses grow, and last at least as long as the server
                asks to wait. The default outlasts a server restart.
            token: sent as `Authorization: Bearer ...`.
            api_key: API key of a gateway, sent in the same header; give this or `token`.
            headers: additional HTTP headers or gRPC metadata of every request.
            ca_file: CA certificates to trust, in PEM, instead of the system's.
            certificate_file: the client certificate, in PEM, if the server requires one.
            key_file: the private key of the client certificate, in PEM.
            compression: "gzip" or "deflate", only over gRPC; useful on a slow network.
            transport: used instead of a connection to the URL; closed with the translator.

        Raises:
            TypeError: the timeout is not a number.
            ValueError: the URL names no server, the timeout is not positive, a header cannot be
                sent, or a file has the wrong content.
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
        async_transport: AsyncTransport
        if transport is not None:
            async_transport = AwaitableTransport(transport)
        else:
            address = settings.address(url)
            if address.is_engine:
                async_transport = BlockingEngineTransport(address.path)
            elif address.is_grpc:
                async_transport = BlockingGrpcTransport(address, settings)
            else:
                async_transport = HttpTransport(BlockingConnections(address, settings))
        self._exchange = Exchange(async_transport, settings, awaitable(time.sleep), ThreadPool)

    def __enter__(self) -> Self:
        """The translator itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Close the connections; the translator cannot be used afterwards."""
        run(self._exchange.close())

    def is_ready(self) -> bool:
        """Whether the server can translate now; also False if nothing answers."""
        return self.health().ready

    def health(self) -> Health:
        """Whether the server can translate now, and if not, why; raises no `TranslationError`."""
        return run(self._exchange.health())

    def languages(self) -> tuple[str, ...]:
        """Returns the languages that the server translates between, such as "en" and "de".

        Raises:
            TranslationError: the server did not answer, or its answer lacks the information.
        """
        return run(self._exchange.languages())

    def info(self) -> ServerInfo:
        """Returns the server's version, models, languages, options and limits.

        Raises:
            TranslationError: the server did not answer, or its answer lacks the information.
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
            **options: see `OptionArguments`; the server has defaults for missing ones.

        Returns:
            One translation for one text; for several texts a list in the same order.

        Raises:
            TypeError: a text is not a `str`, or an option has the wrong type.
            ValueError: an option is out of range.
            TranslationError: the request failed; see `dragoman_client.core.errors`.
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
        """Score given translations with the model.

        Args:
            texts: a text, or several, sent in one request.
            targets: the translation of the text, or one translation for each text.
            **options: see `ScoringArguments`.

        Returns:
            One score for one text; for several texts a list in the same order.

        Raises:
            TypeError: a text is not a `str`, or an option has the wrong type.
            ValueError: an option is out of range, or there are more or fewer targets than texts.
            TranslationError: the request failed; see `dragoman_client.core.errors`.
        """
        return run(self._exchange.score(texts, targets, **options))

    def translate_stream(
        self, text: str, **options: Unpack[OptionArguments]
    ) -> Iterator[Translation]:
        """Translate a text and stream the growing translation.

        Args:
            text: a text.
            **options: see `OptionArguments`. With greedy search (`beam_width=1`) the text grows
                token by token, with beam search by the prefix that all hypotheses share.

        Returns:
            Translations, each with the stable prefix of the text so far. The last one is what
            `translate` returns; the others have an empty `finish_reason`. Closing the iterator
            cancels the translation, except over gRPC: a cancelled stream can crash Triton 24.10,
            so the server finishes it.

        Raises:
            TypeError: a text is not a `str`, or an option has the wrong type.
            ValueError: an option is out of range.
            TranslationError: the request failed; raised while iterating.
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
            texts: the texts; this thread reads only a few of them ahead of the results.
            batch_size: number of texts in a request.
            concurrency: number of concurrent requests. With 1, each request is answered before
                more texts are read, as a dialogue needs; with more, up to twice as many batches
                are read ahead.
            **options: see `OptionArguments`; the server has defaults for missing ones.

        Returns:
            Translations in the order of the texts.

        Raises:
            TypeError: an option has the wrong type; while iterating, a text is not a `str`.
            ValueError: an option is out of range.
            TranslationError: a request failed, and those after it are cancelled; raised while
                iterating.
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
        form: LineFormat | FormatName | None = None,
        batch_size: int = 32,
        concurrency: int = 2,
        resume: bool = False,
        force: bool = False,
        columns: Sequence[str] = (),
        titles: bool = False,
        least_confidence: float | None = None,
        tell: Callable[[FileProgress], None] = lambda _: None,
        refuse: Callable[[int, InvalidRequest], None] = lambda _number, _error: None,
        **options: Unpack[OptionArguments],
    ) -> FileProgress:
        """Translate a file into another one, in constant memory.

        The output is written to `TARGET.partial`, which is renamed when it is complete.

        Args:
            source: the file to read. Lines are in UTF-8; a document with markup declares its
                encoding.
            target: the file to write.
            form: the format of the lines; None: `PlainLines`. The lines of a `Document` are its
                paragraphs. Those of a format of documents, such as "html", are its texts;
                everything else is kept byte for byte.
            batch_size: number of lines in a request.
            concurrency: number of concurrent requests.
            resume: continue the output of an interrupted call; not for markup.
            force: replace an existing target, and the output of an interrupted call.
            columns: names of the columns to translate, for the form "csv".
            titles: translate the title among the properties of an Office document or a book too.
            least_confidence: the report lists translations with a lower confidence.
            tell: called with the progress after each line.
            refuse: called with the number of each line that the server refused, and the error; the
                line is left empty.
            **options: see `OptionArguments`; the server has defaults for missing ones.

        Returns:
            How many lines were translated, with a report.

        Raises:
            FileExistsError: the target exists, or an interrupted call has begun to write it.
            OSError: a file cannot be read or written.
            TypeError: an option has the wrong type.
            TranslationError: a request failed; the output so far is kept and can be resumed.
            ValueError: an option is out of range, a line does not have the format, or the output
                to be resumed belongs to another input or other options.
        """
        self._exchange._check_open()
        if least_confidence is not None:
            options["return_confidence"] = True
        check_batch_options(options)
        if isinstance(form, str):
            reading = Reading.of(options, columns, titles)
            return self._translate_markup(
                source=Path(source),
                target=Path(target),
                form=form,
                reading=reading,
                resume=resume,
                force=force,
                least_confidence=least_confidence,
                tell=tell,
                refuse=refuse,
                options=options,
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
            least_confidence=least_confidence,
            tell=tell,
            refuse=refuse,
        )

    def suggest(self, texts: Sequence[str], _markups: Sequence[Markup]) -> Sequence[Suggestions]:
        """Returns translations of similar texts, which some documents show; here there are none."""
        return [()] * len(texts)

    def _translate_markup(
        self,
        source: Path,
        target: Path,
        form: FormatName,
        reading: Reading,
        resume: bool,
        force: bool,
        least_confidence: float | None,
        tell: Callable[[FileProgress], None],
        refuse: Callable[[int, InvalidRequest], None],
        options: OptionArguments,
    ) -> FileProgress:
        """`translate_file` for a file with markup."""
        if resume:
            raise ValueError("resume: a document with markup is translated from its beginning")
        report = FileReport()

        def translate(texts: Sequence[str], markup: Sequence[Markup]) -> list[Translation]:
            return self.translate(texts, **OptionArguments(**{**options, "markup": markup}))

        def progress(done: int, of: int) -> FileProgress:
            return FileProgress(done, of, 0, report.left["refused"], report.cut, report)

        number = translate_document(
            source,
            target,
            partial(open_reader, form, reading),
            translate,
            report=report,
            suggest=self.suggest,
            least_confidence=least_confidence,
            force=force,
            refuse=refuse,
            tell=lambda done, of: tell(progress(done, of)),
        )
        return progress(number, number)
