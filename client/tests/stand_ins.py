"""The public fakes, with faults for certain texts."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from dragoman_client import (
    AccessDenied,
    DeadlineExceeded,
    FileProgress,
    InvalidRequest,
    ServerError,
    ServerUnavailable,
    Translation,
    Translator,
    testing,
)
from dragoman_client.testing import Request, translated
from dragoman_client.testing.answers import Answers, Outputs
from dragoman_client.testing.server import HttpHandler

TIMEOUT_S = 0.25

KINDS: list[tuple[str, type[Exception]]] = [
    ("!invalid", InvalidRequest),
    ("!unavailable", ServerUnavailable),
    ("!internal", ServerError),
    ("!cancelled", DeadlineExceeded),
]
"""Texts that the fakes refuse, and the errors that the client raises."""

SECRET_ONLY = "x-secret-only"
"""A request header that makes the servers require a token."""

HEADERS: list[dict[str, Any]] = []
"""Headers and deadlines in microseconds of the requests that the servers received."""

ENDLESS = "!endless"
"""A text whose stream ends without its last part."""

LATE = "!late"
"""A text that the servers answer after the timeout."""


def translate(text: str) -> str | Translation:
    """The translation function of the tests' fakes."""
    for refused, kind in KINDS:
        if text == refused:
            raise kind(f"refused: {text}")
    if text == LATE:
        time.sleep(2 * TIMEOUT_S)
    return Translation(translated(text), len(text), "length" if "cut" in text else "stop")


class FakeTransport(testing.FakeTransport):
    """Answers after a random delay, and counts the requests in flight.

    Attributes:
        refused: how texts begin that are refused; None: none are.
        failure: an error of every request after this many.
    """

    refused: str | None = None
    failure: tuple[int, Exception] | None = None

    def __init__(
        self,
        longest_delay_s: float = 0.0,
        translate: Callable[[str], str | Translation] = translate,
    ) -> None:
        """A transport whose delays are the same in every run."""
        super().__init__(translate)
        self.most_under_way = 0
        self._under_way = 0
        self._lock = threading.Lock()
        self._random = random.Random(0)
        self._longest_delay_s = longest_delay_s

    def infer(self, inputs: Any, timeout_s: float = 1.0, model: str = "translate") -> Any:
        """Wait for a random time, then answer."""
        if self.failure is not None and len(self.requests) >= self.failure[0]:
            raise self.failure[1]
        for index, text in enumerate(inputs["text_input"]):
            if self.refused is not None and text.decode().startswith(self.refused):
                raise InvalidRequest(f"text {index} is bad", text_index=index)
        with self._lock:
            self._under_way += 1
            self.most_under_way = max(self.most_under_way, self._under_way)
            delay_s = self._random.uniform(0, self._longest_delay_s)
        time.sleep(delay_s)
        with self._lock:
            self._under_way -= 1
        return super().infer(inputs, timeout_s, model)


class Forgetful(FakeTransport):
    """Keeps no requests, so that its memory does not grow."""

    def infer(self, inputs: Any, timeout_s: float = 1.0, model: str = "translate") -> Any:
        """Forget the requests before this one, and answer it."""
        self.requests.clear()
        return super().infer(inputs, timeout_s, model)


def unavailable_after(requests: int, transport: FakeTransport | None = None) -> FakeTransport:
    """A transport whose server becomes unavailable after a number of requests."""
    transport = transport or FakeTransport(longest_delay_s=0.002)
    transport.failure = requests, ServerUnavailable("away")
    return transport


def translate_file(
    source: Path, target: Path, transport: FakeTransport | None = None, **options: Any
) -> FileProgress:
    """Translate a file over a transport, or over one that answers everything."""
    with Translator(transport=transport or FakeTransport(), retries=0) as translator:
        return translator.translate_file(source, target, **options)


class WrongAnswers(Answers):
    """Answers of the tests' servers."""

    def __init__(self) -> None:
        super().__init__(translate)

    def whole(self, request: Request) -> Outputs:
        token = request.headers.get("authorization")
        if SECRET_ONLY in request.headers and token != "Bearer secret":
            raise AccessDenied("a token is missing")
        timeout_us = round((request.timeout_s or 0) * 1e6)
        HEADERS.append({**request.headers, "timeout": timeout_us})
        return super().whole(request)

    def parts(self, request: Request) -> Iterator[Outputs]:
        for part in super().parts(request):
            if part["finish_reason"] != [""] and request.inputs["text_input"] == [ENDLESS]:
                return
            yield part


class WrongHandler(HttpHandler):
    """Faults that only HTTP has: a proxy, another server, a dropped connection."""

    connections: ClassVar[set[Any]] = set()

    def answer(self, request: Request) -> None:
        self.connections.add(self.client_address)
        text = request.inputs.get("text_input", [""])[0]
        if text == "!proxy":
            return self.send(502, b"<html>Bad Gateway</html>")
        if text == "!nonsense":
            return self.send(200, b"<html>Welcome</html>")
        super().answer(request)
        if text == "!hangup":
            # The client gets no notice, as from a server that drops idle connections.
            self.close_connection = True
        return None


@dataclass(frozen=True)
class TlsFiles:
    """Paths of PEM files."""

    ca: Path
    certificate: Path
    key: Path
