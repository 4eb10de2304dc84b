"""Stand-ins for a server, for the tests of applications that use the client.

`FakeTransport` and `AsyncFakeTransport` answer without a connection. `FakeServer` answers without a
model: over HTTP and gRPC as Dragoman behind Triton does, and over HTTP as a gateway does.

What a stand-in translates a text into is a function, by default `translated`. It returns a text or
a `Translation`; a `TranslationError` that it raises refuses the request as the server would.
"""

from dragoman_client.testing.answers import Request, translated
from dragoman_client.testing.fake_server import FakeServer
from dragoman_client.testing.transports import AsyncFakeTransport, FakeTransport

__all__ = ["AsyncFakeTransport", "FakeServer", "FakeTransport", "Request", "translated"]
