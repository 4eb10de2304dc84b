"""Fakes of a server, for the tests of applications that use the client.

`FakeTransport` and `AsyncFakeTransport` answer without a connection. `FakeServer` answers without a
model: over HTTP and gRPC like Dragoman on Triton, and over HTTP like a gateway.

A fake translates with a function, by default `translated`, which returns a text or a
`Translation`. If it raises a `TranslationError`, the fake refuses the request as the server would.
"""

from dragoman_client.testing.answers import Request, translated
from dragoman_client.testing.fake_server import FakeServer
from dragoman_client.testing.transports import AsyncFakeTransport, FakeTransport

__all__ = ["AsyncFakeTransport", "FakeServer", "FakeTransport", "Request", "translated"]
