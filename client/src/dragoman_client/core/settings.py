"""Settings of both clients, with their validation."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal, Self

from dragoman_options.table import check

from dragoman_client.core.access import Access, FilePath
from dragoman_client.core.address import Address, read_url

Compression = Literal["gzip", "deflate"]
_COMPRESSIONS = ("gzip", "deflate")
"""The algorithms that Triton supports over gRPC."""


@dataclasses.dataclass(frozen=True)
class ClientSettings:
    """Timeout, retries, credentials and compression of a client."""

    timeout_s: float
    retries: int
    access: Access
    compression: Compression | None

    @classmethod
    def of(
        cls,
        timeout_s: float,
        retries: int,
        token: str | None,
        api_key: str | None,
        headers: Mapping[str, str] | None,
        ca_file: FilePath | None,
        certificate_file: FilePath | None,
        key_file: FilePath | None,
        compression: Compression | None,
    ) -> Self:
        """Validate the arguments of a client.

        Raises:
            TypeError: an argument that must be a number is not.
            ValueError: a number is out of range; see `Access` for the other arguments.
        """
        if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float):
            raise TypeError(f"timeout_s must be a number, got {type(timeout_s).__name__}")
        if not 0 < timeout_s < math.inf:
            raise ValueError(f"timeout_s is {timeout_s}: it must be positive and finite")
        if isinstance(retries, bool) or not isinstance(retries, int):
            raise TypeError(f"retries must be int, got {type(retries).__name__}")
        if retries < 0:
            raise ValueError(f"retries is {retries}: it must be at least 0")
        if compression not in (None, *_COMPRESSIONS):
            raise ValueError(
                f"compression is {compression!r}: give one of {_COMPRESSIONS}, or None"
            )
        if token is not None and api_key is not None:
            raise ValueError("token and api_key: give one; both are sent as the same header")
        access = Access(
            token=token if api_key is None else api_key,
            headers=headers or {},
            ca_file=ca_file,
            certificate_file=certificate_file,
            key_file=key_file,
        )
        return cls(timeout_s, retries, access, compression)

    def address(self, url: str) -> Address:
        """Parse a URL; see `read_url`.

        Raises:
            ValueError: the URL names no server, or conflicts with the settings.
        """
        address = read_url(url, self.access)
        if self.compression is not None and not address.is_grpc:
            raise ValueError(
                f"compression is {self.compression!r}: only grpc:// and grpcs:// support it, since "
                "Triton's HTTP does not accept compressed JSON"
            )
        return address


def check_batching(texts: object, batch_size: object, concurrency: object) -> None:
    """Check the arguments for batched translation.

    Raises:
        TypeError: `texts` is a single text, or a number is not an integer.
        ValueError: a number is below one.
    """
    if isinstance(texts, str | bytes | bytearray):
        raise TypeError("texts must be an iterable of str, not one text: use translate")
    for name, value in (("batch_size", batch_size), ("concurrency", concurrency)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} must be int, got {type(value).__name__}")
        if value < 1:
            raise ValueError(f"{name} is {value}: it must be at least 1")


def check_batch_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Check options of texts sent in several requests; see `dragoman_options.table.check`."""
    checked = check(options)
    if (prefixes := len(checked.get("prefix", ()))) > 1:
        raise ValueError(f"prefix has {prefixes} values: texts in batches have one for all")
    if "markup" in checked:
        raise ValueError("markup: not for texts in batches, use translate")
    return checked
