"""A fake server without a model."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Self

import grpc

from dragoman_client.testing.answers import Answers, Request, Translate, translated
from dragoman_client.testing.gateway_handler import GatewayHandler
from dragoman_client.testing.server import GrpcService, HttpServer, add_service


class FakeServer:
    """Listens on free local ports; close it, or use it as a context manager.

    Attributes:
        grpc_url: URL for `Translator`, as Triton's gRPC.
        http_url: URL for `Translator`, as Triton's HTTP.
        gateway_url: URL for `Translator`, as a gateway.
    """

    def __init__(self, translate: Translate = translated) -> None:
        """Start, with a function that translates; see `dragoman_client.testing`."""
        self._answers = Answers(translate)
        self._grpc = grpc.server(ThreadPoolExecutor(8))
        add_service(self._grpc, GrpcService(self._answers))
        self.grpc_url = f"grpc://127.0.0.1:{self._grpc.add_insecure_port('127.0.0.1:0')}"
        self._grpc.start()
        self._http = HttpServer(("127.0.0.1", 0), self._answers)
        self.http_url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._http.start()
        self._gateway = HttpServer(("127.0.0.1", 0), self._answers, GatewayHandler)
        self.gateway_url = f"http://127.0.0.1:{self._gateway.server_address[1]}"
        self._gateway.start()

    def __enter__(self) -> Self:
        """The server itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close."""
        self.close()

    @property
    def requests(self) -> list[Request]:
        """The received requests, oldest first."""
        return self._answers.requests

    def close(self) -> None:
        """Stop, and close all connections."""
        self._grpc.stop(grace=None).wait()
        self._http.stop()
        self._gateway.stop()
