"""The model `translate_stream`: streams the translation of a text, from the same engine."""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from dragoman_options.frames import Answer, Request
from dragoman_options.table import DETECTED_OUTPUTS, STREAM

from dragoman.kernel.errors import InvalidRequest
from dragoman_serving.engine.futures import Future, outcome_error
from dragoman_serving.engine.request_trace import RequestTrace
from dragoman_serving.service import answers
from dragoman_serving.service.answers import Form, of_stream_error
from dragoman_serving.service.bundles import Bundles
from dragoman_serving.service.connection import Connection
from dragoman_serving.service.pivoted_request import PivotedRequest
from dragoman_serving.service.requests import ParsedRequest, RequestRules
from dragoman_serving.service.served_model import Model
from dragoman_serving.translation.streaming import TextStream
from dragoman_serving.translation.translation import Translation
from dragoman_serving.translation.translator import Translator


class _Growing:
    """A translation that is sent as it grows."""

    def __init__(self, form: Form, trace: RequestTrace | None, request_id: str) -> None:
        self.form, self.trace, self.request_id = form, trace, request_id
        self.stream: TextStream | None = None
        self.bundle = ""
        """Identity of the bundle."""
        self.pivoted: PivotedRequest | None = None
        """Set for a pivot route; the stream is then that of the last leg."""
        self.sent: str | None = None
        """The prefix that was sent; the first event is sent immediately, without text."""
        self.has_begun = False
        self.outputs: frozenset[str] = frozenset()
        """More requested outputs, which the stream does not have."""
        self.waits = False
        """Whether it is in the queue of changed streams."""

    def end(self, translations: list[Translation], outputs: frozenset[str]) -> Answer:
        """Returns the last message, with the complete translation."""
        if self.pivoted is not None:
            translations = self.pivoted.joined(translations)
        return answers.of_translations(
            translations=translations,
            requested=outputs | self.outputs,
            form=self.form,
            bundle=self.bundle,
            sent=self.sent,
        )


class TranslateStreamModel(Model):
    """See `Model`. One thread sends the updates, and merges updates of a stream that pile up."""

    def __init__(self, rules: RequestRules, connection: Connection, bundles: Bundles) -> None:
        """Start the thread.

        Args:
            rules: rules for the requests.
            connection: connection to the client.
            bundles: bundles that translate; they stay open when the model is closed.
        """
        super().__init__(rules)
        self._connection = connection
        self._bundles = bundles
        self._changed: queue.SimpleQueue[_Growing | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="dragoman-streams", daemon=True)
        self._thread.start()

    def ask(self, request: Request, trace: RequestTrace | None = None) -> None:
        """See `Model`."""
        try:
            parsed = self._reader.read(request, trace)
            if len(parsed.texts) != 1:
                raise InvalidRequest(f"text_input has {len(parsed.texts)} texts: give one")
            form = Form(request.number, parsed.requested.outputs, parsed.shape)
            growing = _Growing(form, trace, request.id)
            future = self._start(parsed, growing)
        except Exception as error:  # one request's error must not reach the others
            failure = of_stream_error(error, request.number, trace, request.id)
            self._connection.send(failure.pack())
            return
        self.in_flight.add(request.number, future)
        future.add_done_callback(partial(self._end, growing))

    def _start(self, request: ParsedRequest, growing: _Growing) -> Future[list[Translation]]:
        bundles = self._bundles
        route = bundles.route(request)
        fallbacks = [route.language_fallbacks(request.requested.options)]
        growing.form = replace(growing.form, language_fallbacks=fallbacks)
        if route.languages:
            growing.pivoted = PivotedRequest(bundles, route, request, STREAM)
            if route.detected:
                growing.outputs = frozenset(DETECTED_OUTPUTS)
            return growing.pivoted.start(
                lambda translator, between, options: self._begin(
                    translator, between, options, growing
                )
            )
        options = request.requested.options
        return bundles.start(
            route.bundles[0],
            request,
            lambda translator: self._begin(translator, request, options, growing),
        )

    def _begin(
        self,
        translator: Translator,
        request: ParsedRequest,
        options: Mapping[str, Any],
        growing: _Growing,
    ) -> Future[list[Translation]]:
        growing.bundle = growing.pivoted.bundle if growing.pivoted else translator.manifest.identity
        stream = translator.stream(
            request.texts[0],
            options,
            lambda: self._look_at(growing),
            request.urgency,
        )
        growing.stream, growing.has_begun = stream, True
        self._look_at(growing)  # updates may have come before the stream was set
        return stream.future

    def _end(self, growing: _Growing, done: Future[list[Translation]]) -> None:
        """Send the error of a stream that did not start; `_tell` sends the end of the others."""
        if growing.has_begun:
            return
        failure = outcome_error(done)
        if failure is not None:
            self._fail(growing, failure)

    def _fail(self, growing: _Growing, error: BaseException) -> None:
        number, trace = growing.form.number, growing.trace
        failure = of_stream_error(error, number, trace, growing.request_id)
        self._connection.send(failure.pack())

    def close(self) -> None:
        """See `Model`."""
        super().close()
        self._changed.put(None)
        self._thread.join()

    def _look_at(self, growing: _Growing) -> None:
        if not growing.waits:
            growing.waits = True
            self._changed.put(growing)

    def _run(self) -> None:
        while (growing := self._changed.get()) is not None:
            growing.waits = False
            if growing.stream is None:
                continue
            try:
                self._tell(growing, growing.stream)
            except Exception as error:  # one stream's error must not end the others
                growing.stream.future.cancel()
                growing.stream = None
                self._fail(growing, error)

    def _tell(self, growing: _Growing, stream: TextStream) -> None:
        if growing.sent is None:
            growing.sent = ""
            self._connection.send(answers.of_beginning("", "", 0, growing.form).pack())
        if stream.future.done():
            growing.stream = None  # no more updates
            if failure := outcome_error(stream.future):
                self._fail(growing, failure)
                return
            answer = growing.end(stream.future.result(), stream.outputs)
            self._connection.send(answer.pack())
            if growing.trace is not None:
                growing.trace.end(growing.bundle)
            return
        text = stream.read()
        # A slow reader does not block others; updates it missed are merged into one.
        if text != growing.sent and not self._connection.is_behind:
            delta = text.removeprefix(growing.sent)
            growing.sent = text
            answer = answers.of_beginning(text, delta, stream.tokens, growing.form)
            self._connection.send(answer.pack())
