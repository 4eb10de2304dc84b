"""HTML through two servers: which inputs count as a page."""

from __future__ import annotations

import http.server
import threading
import urllib.error
from collections.abc import Iterator

import pytest

from lab.gateway.running import Running
from lab.markup.beside_libretranslate import by_server, speed


class Refusing(http.server.BaseHTTPRequestHandler):
    """Refuses every translation, and serves Triton's statistics."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"model_stats": [{"inference_stats": {"success": {"count": 1}}}]}')

    def do_POST(self) -> None:
        self.send_error(503)

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def refusing() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_refused_page_does_not_count_as_speed(refusing: str) -> None:
    with pytest.raises(urllib.error.HTTPError, match="503"):
        speed(["<p>Text"], Running(refusing, refusing, refusing), refusing, 1)


def test_a_refused_page_is_judged(refusing: str) -> None:
    assert by_server(refusing)("<p>Text") == "error 503"
