"""A good sentence over HTTP: checks that a server still translates correctly."""

from __future__ import annotations

import contextlib
import json
import time
import urllib.error
import urllib.request

from tests.campaigns.background import Background

TEXT, TRANSLATION = "Good morning.", "Guten Morgen."
BODY = json.dumps({"text_input": TEXT, "target_language": "de"}).encode()
_EVERY_S = 0.1
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def good_answer(http_port: int, timeout_s: float = 20.0, host: str = "127.0.0.1") -> bool:
    """Whether a good sentence is translated correctly."""
    return ask(http_port, timeout_s, host) == TRANSLATION


def ask(http_port: int, timeout_s: float = 20.0, host: str = "127.0.0.1") -> str | None:
    """The translation of the good sentence, or None if the request failed."""
    address = f"http://{host}:{http_port}/v2/models/translate/generate"
    with (
        contextlib.suppress(OSError, ValueError, KeyError),
        _DIRECT.open(urllib.request.Request(address, BODY), timeout=timeout_s) as answer,
    ):
        return str(json.load(answer)["text_output"])
    return None


class Prober(Background):
    """Requests the good sentence ten times a second, and measures for how long it fails."""

    def __init__(self, http_port: int) -> None:
        """Prepare; entering the context starts it."""
        super().__init__()
        self.longest_outage_s = 0.0
        self.requests = 0
        self.wrong = 0
        self._port = http_port

    def _run(self) -> None:
        failing_since: float | None = None
        while not self._stopping.wait(_EVERY_S):
            start = time.monotonic()
            answer = ask(self._port, timeout_s=10.0)
            self.requests += 1
            self.wrong += answer not in (None, TRANSLATION)
            if answer is None:
                failing_since = failing_since or start
            if failing_since is not None:
                outage_s = time.monotonic() - failing_since
                self.longest_outage_s = max(self.longest_outage_s, outage_s)
            if answer is not None:
                failing_since = None
