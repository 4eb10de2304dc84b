"""What is put under load: a server, and how it is asked."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

from dragoman_client.access import Access
from dragoman_client.address import Address, read_url
from dragoman_options.arguments import OptionArguments
from dragoman_options.table import STREAM, TRANSLATE, check


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
    """

    url: str
    address: Address
    access: Access
    options: dict[str, Any]
    streamed: bool
    timeout_s: float

    @classmethod
    def of(
        cls,
        url: str,
        *,
        options: OptionArguments | None = None,
        access: Access | None = None,
        streamed: bool = False,
        timeout_s: float = 30.0,
    ) -> Self:
        """Read a URL.

        Raises:
            TypeError: an option that is unknown or of another type.
            ValueError: a URL that names no server, access that does not fit it, or an option out of
                range.
        """
        access = access or Access()
        return cls(
            url,
            read_url(url, access),
            access,
            check(options or {}, STREAM if streamed else TRANSLATE),
            streamed,
            timeout_s,
        )

    @property
    def notices_cancellation(self) -> bool:
        """Whether Triton cancels a request that its client has cancelled.

        Over HTTP only streams; over gRPC all but streams, which the client never cancels.
        """
        return self.address.is_grpc != self.streamed

    @property
    def protocol(self) -> str:
        """As reports name it."""
        return ("gRPC" if self.address.is_grpc else "HTTP") + (", streamed" * self.streamed)
