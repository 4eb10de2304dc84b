"""The model `translate_stream`: text in, its translation out as it grows, from the same engine."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from serving.service import answers
from serving.service.answers import Form
from serving.service.configuration import RULES, check_names, request_rules
from serving.service.connection import Connection
from serving.service.frames import Hello, Request
from serving.service.model import InFlight, last_answer, parameters, understand
from serving.streaming import TextStream
from serving.translator import InvalidRequest, Translator


class _Told:
    """A translation that is told as it grows."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.stream: TextStream | None = None
        self.sent = ""
        self.waits = False
        """To be looked at."""


class TranslateStreamModel:
    """See `Model`. One thread tells what is new: what came in between goes out together."""

    def __init__(
        self, hello: Hello, connection: Connection, translator: Callable[[], Translator]
    ) -> None:
        """Start the thread.

        Args:
            hello: from Triton's side.
            connection: to it.
            translator: gives the engine with its texts, or raises a `DragomanError`.

        Raises:
            DragomanError: the configuration is not usable.
        """
        given = parameters(hello)
        check_names(given, RULES)
        self._rules = request_rules(given)
        self._connection = connection
        self._translator = translator
        self._in_flight = InFlight()
        self._changed: queue.SimpleQueue[_Told | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="dragoman-streams", daemon=True)
        self._thread.start()

    def ask(self, request: Request) -> None:
        """See `Model`."""
        try:
            asked, form = understand(request, self._rules)
            if len(asked.texts) != 1:
                raise InvalidRequest(f"text_input has {len(asked.texts)} texts: give one")
            told = _Told(form)
            told.stream = self._translator().stream(
                asked.texts[0], asked.options, lambda: self._look_at(told), asked.terms
            )
        except Exception as error:  # one request's error must not reach the others
            self._connection.send(answers.of_error(error, request.number).pack())
            return
        self._in_flight.add(request.number, told.stream.future)
        self._look_at(told)  # what came before `told` had its stream

    def cancel(self, number: int) -> None:
        """See `Model`."""
        self._in_flight.cancel(number)

    def close(self) -> None:
        """See `Model`."""
        self._in_flight.cancel_all()
        self._changed.put(None)
        self._thread.join()

    def _look_at(self, told: _Told) -> None:
        if not told.waits:
            told.waits = True
            self._changed.put(told)

    def _run(self) -> None:
        while (told := self._changed.get()) is not None:
            told.waits = False
            if told.stream is None:
                continue
            try:
                self._tell(told, told.stream)
            except Exception as error:  # one stream's error must not end the others
                told.stream.future.cancel()
                told.stream = None
                self._connection.send(answers.of_error(error, told.form.number).pack())

    def _tell(self, told: _Told, stream: TextStream) -> None:
        if stream.future.done():
            told.stream = None  # nothing comes any more
            self._connection.send(last_answer(stream.future, told.form).pack())
            return
        text = stream.read()
        # Who reads slowly holds nothing up, and hears of what came in between later.
        if text != told.sent and not self._connection.is_behind:
            told.sent = text
            self._connection.send(answers.of_beginning(text, told.form).pack())
