"""Credentials of a client: headers, and certificates for TLS."""

from __future__ import annotations

import dataclasses
import os
import re
import ssl
from collections.abc import Mapping
from pathlib import Path

FilePath = str | os.PathLike[str]

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_|~-]+")
_VALUE = re.compile(r"[\x20-\x7e]*")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Access:
    """Headers and certificates that the client uses for every request.

    Args:
        token: sent as `Authorization: Bearer ...`.
        headers: additional HTTP headers or gRPC metadata.
        ca_file: CA certificates to trust, in PEM; None: the system's.
        certificate_file: the client certificate, in PEM, if the server requires one.
        key_file: the private key of the client certificate, in PEM.

    Raises:
        ValueError: a header cannot be sent, only one of certificate and key is given, or a file
            cannot be read.
    """

    token: str | None = dataclasses.field(default=None, repr=False)
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    ca_file: FilePath | None = None
    certificate_file: FilePath | None = None
    key_file: FilePath | None = None

    def __post_init__(self) -> None:
        """Validate headers and files before a connection is opened."""
        for name, value in self.all_headers.items():
            # The message does not show the value: it may be a secret.
            if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
                raise ValueError(f"header {name!r}: names and values are plain ASCII in one line")
        if (self.certificate_file is None) != (self.key_file is None):
            raise ValueError("give certificate_file and key_file, or neither")
        for name in ("ca_file", "certificate_file", "key_file"):
            self._read(name)

    @property
    def all_headers(self) -> dict[str, str]:
        """Headers with names in lower case, as gRPC requires."""
        headers = {name.lower(): value for name, value in self.headers.items()}
        if self.token is not None:
            headers["authorization"] = f"Bearer {self.token}"
        return headers

    @property
    def wants_tls(self) -> bool:
        """Whether any of these settings requires TLS."""
        return self.ca_file is not None or self.certificate_file is not None

    def tls_context(self) -> ssl.SSLContext:
        """Returns a context for connections of Python's `ssl`.

        Raises:
            ValueError: a file has the wrong content.
        """
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except (ssl.SSLError, OSError) as error:
            raise ValueError(f"ca_file {str(self.ca_file)!r}: no certificates in PEM") from error
        if self.certificate_file is not None:
            try:
                context.load_cert_chain(self.certificate_file, self.key_file)
            except (ssl.SSLError, OSError) as error:
                raise ValueError(
                    f"certificate_file {str(self.certificate_file)!r}, key_file "
                    f"{str(self.key_file)!r}: not a certificate in PEM and its key"
                ) from error
        return context

    def _read(self, name: str) -> None:
        file = getattr(self, name)
        if file is None:
            return
        try:
            Path(file).read_bytes()
        except OSError as error:
            raise ValueError(f"{name} {str(file)!r}: cannot be read: {error.strerror}") from error
