"""Tokens, headers and TLS."""

import dataclasses
from pathlib import Path

import pytest
from dragoman_client import AccessDenied, ServerUnavailable, TranslationError, Translator
from dragoman_client.core.access import Access
from server_fixtures import Either
from stand_ins import HEADERS, SECRET_ONLY, TlsFiles, translated


async def test_every_request_has_token_headers_and_deadline(
    either: Either, triton_url: str
) -> None:
    """Names of headers are sent in lower case, as gRPC requires."""
    HEADERS.clear()
    how = {"token": "secret", "headers": {"X-Team": "Docs"}, "timeout_s": 2.5}
    async with either(triton_url, **how) as client:
        assert await client.is_ready()
        for _ in range(2):
            await client.translate("a")
    assert len(HEADERS) == 2
    for seen in HEADERS:
        assert seen["authorization"] == "Bearer secret"
        assert seen["x-team"] == "Docs"
        assert 1_000_000 < seen["timeout"] <= 2_500_000


def test_a_wrong_token_raises_access_denied(url: str) -> None:
    """A missing or wrong token has its own class of errors, because a retry cannot help."""
    with (
        Translator(url, token="guess", headers={SECRET_ONLY: "yes"}) as translator,
        pytest.raises(AccessDenied),
    ):
        translator.translate("a")


async def test_tls_with_a_client_certificate(
    either: Either, tls_url: str, client_files: TlsFiles
) -> None:
    """The system does not trust the tests' certificate authority."""
    own = {"certificate_file": client_files.certificate, "key_file": str(client_files.key)}
    async with either(tls_url, ca_file=client_files.ca, **own) as client:
        assert await client.is_ready()
        assert (await client.translate("a")).text == translated("a")
    async with either(tls_url, timeout_s=5, **own) as client:
        with pytest.raises((AccessDenied, ServerUnavailable)):
            await client.translate("a")


def test_a_client_without_a_certificate_is_rejected(tls_url: str, client_files: TlsFiles) -> None:
    """The server requires a client certificate."""
    with (
        Translator(tls_url, ca_file=client_files.ca, timeout_s=5) as translator,
        pytest.raises(TranslationError),
    ):
        translator.translate("a")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"headers": {"X-Team": "a\r\nX-Admin: yes"}}, "header 'x-team'"),
        ({"headers": {"X Team": "a"}}, "header 'x team'"),
        ({"token": "Bj\u00f6rk"}, "header 'authorization'"),
        ({"certificate_file": "a.pem"}, "give certificate_file and key_file, or neither"),
        ({"ca_file": "no/such.pem"}, "ca_file 'no/such.pem': cannot be read: No such file"),
    ],
)
def test_invalid_access_arguments_are_refused(arguments: dict[str, object], message: str) -> None:
    """The message is one line and does not contain the value of a header."""
    with pytest.raises(ValueError, match=r"\S") as caught:
        Translator("https://localhost", **arguments)  # type: ignore[arg-type]
    assert message in str(caught.value)
    assert "Admin" not in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("scheme", ["grpcs", "https"])
def test_files_without_certificates_or_keys_are_named(
    scheme: str, client_files: TlsFiles, tmp_path: Path
) -> None:
    """Certificate files are read when a translator is created."""
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("hello")
    for files, what in (
        (dataclasses.replace(client_files, ca=wrong), r"ca_file '.*wrong\.pem': no certificates"),
        (dataclasses.replace(client_files, key=wrong), r"key_file '.*wrong\.pem': not a cert"),
    ):
        with pytest.raises(ValueError, match=what):
            Translator(
                f"{scheme}://localhost",
                ca_file=files.ca,
                certificate_file=files.certificate,
                key_file=files.key,
            )


def test_certificates_require_tls(client_files: TlsFiles) -> None:
    """Without TLS, certificates would silently have no effect."""
    with pytest.raises(ValueError, match="certificates are for grpcs:// and https://"):
        Translator("grpc://localhost", ca_file=client_files.ca)


def test_a_representation_contains_no_token() -> None:
    """A representation of an object can be written to a log, so it contains no secrets."""
    assert "secret" not in repr(Access(token="secret", headers={"x-key": "secret"}))
