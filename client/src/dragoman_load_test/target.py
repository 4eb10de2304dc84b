"""What is put under load: a server, and how it is asked."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

from dragoman_client.access import Access
from dragoman_client.address import Address, read_url
from dragoman_options.arguments import OptionArguments
from dragoman_options.table import STREAM, TRANSLATE, check

from dragoman_load_test.http_apis import ApiName, HttpApi, http_api


@dataclasses.dataclass(frozen=True)
class Target:
    """A server and the form of all requests to it.

    Attributes:
        url: where it is, as the client takes it.
        address: what the URL says.
        access: what goes with every request.
        options: of every request, by name, as `dragoman_options.table.check` returns them.
        streamed: by `translate_stream`, else by `translate`.
        timeout_s: after which a request is cancelled, here and on the server.
        api: what the server speaks; over gRPC it is Triton.
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
        """Read a URL.

        Raises:
            TypeError: an option that is unknown or of another type.
            ValueError: a URL that names no server, access or a protocol that does not fit it, or an
                option out of range or that the protocol does not have.
        """
        access = access or Access()
        address = read_url(url, access)
        checked = check(options or {}, STREAM if streamed else TRANSLATE)
        found = cls(url, address, access, checked, streamed, timeout_s, api)
        if address.is_grpc and api != "triton":
            raise ValueError(f"URL {url!r}: the protocol {api} is for http:// and https://")
        spoken = found.http_api  # refuses options that it does not have
        if streamed and spoken.stream_path is None:
            raise ValueError(f"{spoken.title}'s protocol has no streams")
        return found

    @property
    def http_api(self) -> HttpApi:
        """How it is asked over HTTP."""
        return http_api(self.api, self.access, self.options)

    @property
    def notices_cancellation(self) -> bool:
        """Whether the server cancels a request that its client has cancelled.

        A gateway does. Triton does over HTTP only for streams; over gRPC for all but streams, which
        the client never cancels.
        """
        return self.api != "triton" or self.address.is_grpc != self.streamed

    @property
    def protocol(self) -> str:
        """As reports name it."""
        title = "gRPC" if self.address.is_grpc else self.http_api.title
        return title + (", streamed" * self.streamed)
