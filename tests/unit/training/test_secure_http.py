"""What may be requested without TLS, and where redirects may lead."""

from __future__ import annotations

import contextlib
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from dragoman_training.secure_http import Hop, is_secure, open_url

from tests.web_server import Handler, serving


@pytest.mark.parametrize(
    ("url", "secure"),
    [
        ("https://hub.example/a", True),
        ("HTTPS://hub.example/a", True),
        ("http://127.0.0.1:80/a", True),
        ("http://[::1]/a", True),
        ("http://localhost/a", True),
        ("http://hub.example/a", False),
        ("http://localhost.example/a", False),
        ("http://127.0.0.1@hub.example/a", False),
        ("http:///a", False),
        ("ftp://localhost/a", False),
        ("file:///etc/passwd", False),
    ],
)
def test_urls_without_protection_on_the_network_are_not_secure(url: str, secure: bool) -> None:
    assert is_secure(url) is secure
    if not secure:
        with pytest.raises(urllib.error.URLError, match="it is not https://"):
            open_url(urllib.request.Request(url), 1)


class Redirects(Handler):
    """Redirects to the URL in the query, if there is one."""

    def respond(self) -> None:
        _, _, target = self.path.partition("?")
        self.answer(302 if target else 200, {"Location": target} if target else {})


@contextlib.contextmanager
def running(tls: ssl.SSLContext | None = None) -> Iterator[str]:
    with serving(Redirects, tls) as port:
        yield f"{'http' if tls is None else 'https'}://localhost:{port}/"


@pytest.fixture(scope="module")
def plain() -> Iterator[str]:
    with running() as url:
        yield url


@pytest.fixture
def encrypted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    with running(context) as url:
        yield url


def answer(url: str) -> tuple[str, list[str]]:
    """The URL that answers at the end, and those that redirect to it."""
    hops: list[Hop] = []
    with open_url(urllib.request.Request(url), 10, hops) as response:
        return response.url, [hop for hop, _ in hops]


def test_a_redirect_may_lead_to_an_equally_secure_url(plain: str, encrypted: str) -> None:
    assert answer(plain) == (plain, [])
    assert answer(f"{plain}?{plain}") == (plain, [f"{plain}?{plain}"])
    assert answer(f"{plain}?{encrypted}") == (encrypted, [f"{plain}?{encrypted}"])
    twice = f"{encrypted}?{encrypted}?{encrypted}"
    assert answer(twice) == (encrypted, [twice, f"{encrypted}?{encrypted}"])


def test_no_redirect_leaves_tls_or_the_machine(plain: str, encrypted: str) -> None:
    for url, target in (
        (plain, "http://hub.example/a"),
        (plain, "ftp://localhost/a"),
        (encrypted, "http://hub.example/a"),
        (encrypted, plain),
        (encrypted, f"{encrypted}?{plain}"),
    ):
        with pytest.raises(urllib.error.URLError, match=r"it redirects to .*, which is not https"):
            answer(f"{url}?{target}")
