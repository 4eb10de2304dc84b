"""Requests of operators."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from dragoman_gateway.application import GatewayApplication
from dragoman_gateway.core.errors import Unavailable
from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.shared.gateway import Gateway
from dragoman_gateway.texts import server_status, translations
from dragoman_gateway.web.forwarding import Networks

from dragoman.kernel.errors import UsageError
from dragoman.kernel.texts.language import detect_language
from tests.unit.gateway.asgi import Application


def test_networks() -> None:
    networks = Networks("metrics_networks", ("127.0.0.0/8", "::1/128", "10.1.2.3/8"))
    for address in ("127.0.0.1", "::ffff:127.0.0.1", "::1", "10.9.9.9"):
        assert networks.have(address)
    for address in ("::ffff:8.8.8.8", "8.8.8.8", "::2", "", "unix"):
        assert not networks.have(address)


def test_a_wrong_network_is_named() -> None:
    with pytest.raises(UsageError, match="metrics_networks: 'x' is not a network"):
        GatewayApplication(Gateway(GatewaySettings(metrics_networks=("x",))))


def test_readiness_probes_share_one_query_to_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queries = []

    with Application() as app:
        info = app.gateway.translations._requests.info

        async def counted() -> Any:
            queries.append(1)
            return await info()

        monkeypatch.setattr(app.gateway.translations._requests, "info", counted)
        for path in ("/readyz", "/health", "/api/v1/health"):
            for _ in range(3):
                assert app.call("GET", path).status == 200
    assert len(queries) <= 2  # the first of them may have been long ago


def test_a_server_whose_engine_hangs_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_status, "_READY_S", 0.05)

    async def hang() -> None:
        await asyncio.Event().wait()

    with Application() as app:
        monkeypatch.setattr(app.gateway.translations._requests, "info", hang)
        for path in ("/readyz", "/api/v1/health"):
            assert app.call("GET", path).status == 503
        assert app.call("GET", "/livez").status == 200


def test_a_stopped_server_behind_a_balancer_does_not_make_it_unready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first request reaches a server that hangs, the next one another server."""
    requests = itertools.count()

    with Application() as app:
        info = app.gateway.translations._requests.info

        async def balanced() -> Any:
            if next(requests) == 0:
                await asyncio.Event().wait()
            return await info()

        monkeypatch.setattr(server_status, "_READY_S", 1.0)
        monkeypatch.setattr(app.gateway.translations._requests, "info", balanced)
        assert app.call("GET", "/readyz").status == 200
    assert next(requests) == 2


def test_probes_do_not_wait_for_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail() -> bool:
        raise Unavailable("the store cannot be used now")

    with Application(address="0.0.0.0") as app:
        monkeypatch.setattr(app.gateway.access, "is_open", fail)
        monkeypatch.setattr(app.gateway.access, "needs_no_key", fail)
        for path in ("/livez", "/readyz", "/metrics"):
            assert app.call("GET", path, headers={"host": "gateway:5000"}).status == 200
        assert app.call("GET", "/languages").status == 503


def test_metrics_are_refused_to_other_networks() -> None:
    """And to every forwarded address: many trusted proxies append to what the client has sent."""
    with Application(metrics_networks=("192.0.2.0/24",)) as app:
        refused = app.call("GET", "/metrics")
        assert refused.status == 403
        assert "--metrics-networks" in refused.json["error"]["message"]
    with Application(trusted_proxies=("127.0.0.1",), metrics_networks=("127.0.0.1",)) as app:
        assert app.call("GET", "/metrics").status == 200
        for header in ("x-forwarded-for", "forwarded", "x-real-ip", "via"):
            assert app.call("GET", "/metrics", headers={header: "127.0.0.1"}).status == 403


@pytest.mark.parametrize(("path", "field"), [("/detect", "q"), ("/api/v1/detect", "text")])
def test_a_language_is_detected_by_the_beginning_of_a_long_text(
    path: str, field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop does it: 8 MB would take a second."""
    lengths = []
    detect = detect_language

    def noted(text: str, *how: Any) -> Any:
        lengths.append(len(text))
        return detect(text, *how)

    monkeypatch.setattr(translations, "detect_language", noted)
    with Application() as app:
        assert app.post(path, {field: "This is English. " * 10_000}).status == 200
    assert lengths == [translations.MOST_DETECTED]
