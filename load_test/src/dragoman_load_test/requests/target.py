"""The server under load, and the form of requests."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

from dragoman_client.core.access import Access
from dragoman_client.core.address import Address, read_url
from dragoman_options.arguments import OptionArguments
from dragoman_options.table import STREAM, TRANSLATE, check

from dragoman_load_test.requests.http_apis import ApiName, HttpApi, http_api


@dataclasses.dataclass(frozen=True)
class Target:
    """A server and the form of all requests to it.

    Attributes:
        url: URL of the server, as the client takes it.
        address: the parsed URL.
        access: credentials of every request.
        options: options of every request, by name, as `dragoman_options.table.check` returns them.
        streamed: whether to use `translate_stream` instead of `translate`.
        timeout_s: timeout of a request, here and on the server.
        api: API of the server; over gRPC it is Triton's.
    """

    url: str
    address: Address
    access: Access
    options: dict[str, Any]
    streamed: bool
    timeout_s: float
    api: ApiName = "triton"

    @classmethod
    def of(
        cls,
        url: str,
        *,
        options: OptionArguments | None = None,
        access: Access | None = None,
        streamed: bool = False,
        timeout_s: float = 30.0,
        api: ApiName = "triton",
    ) -> Self:
        """Make a target from a URL.

        Raises:
            TypeError: an option is unknown or has the wrong type.
            ValueError: the URL names no server, credentials or the protocol do not fit it, or an
                option is out of range or not in the protocol.
        """
        access = access or Access()
        address = read_url(url, access)
        checked = check(options or {}, STREAM if streamed else TRANSLATE)
        target = cls(url, address, access, checked, streamed, timeout_s, api)
        if address.is_engine:
            raise ValueError(f"URL {url!r}: load tests are for http:// and grpc://")
        if address.is_grpc and api != "triton":
            raise ValueError(f"URL {url!r}: the protocol {api} is for http:// and https://")
        spoken = target.http_api  # raises for options that the API does not have
        if streamed and spoken.stream_path is None:
            raise ValueError(f"{spoken.title}'s protocol has no streams")
        return target

    @property
    def http_api(self) -> HttpApi:
        """The API over HTTP."""
        return http_api(self.api, self.access, self.options)

    @property
    def notices_cancellation(self) -> bool:
        """Whether the server cancels a request that its client has cancelled.

        A gateway does. Triton does for streams over HTTP, and for all requests except streams over
        gRPC, where the client never cancels streams.
        """
        return self.api != "triton" or self.address.is_grpc != self.streamed

    @property
    def protocol(self) -> str:
        """Name of the protocol in reports."""
        title = "gRPC" if self.address.is_grpc else self.http_api.title
        return title + (", streamed" * self.streamed)
