"""Counts and logs of requests."""

from __future__ import annotations

import json
import os

import pytest
from dragoman_gateway.application import GatewayApplication
from dragoman_gateway.web.middleware.access_log import AccessLog

from tests.unit.gateway.asgi import Application


@pytest.mark.parametrize(
    ("protocol", "path", "body"),
    [
        ("own", "/api/v1/translate", {"text": "a"}),
        ("own", "/api/v1/translate/stream", {"text": "a"}),
        ("libretranslate", "/translate", {"q": "a", "source": "en", "target": "de"}),
        ("deepl", "/v2/translate", {"text": "a", "source_lang": "EN", "target_lang": "DE"}),
    ],
)
def test_a_cancelled_request_is_counted_for_its_protocol(
    stuck: Application, protocol: str, path: str, body: dict[str, str]
) -> None:
    reading, writing = os.pipe()
    log = AccessLog(writing)
    stuck._application = GatewayApplication(stuck.gateway, log)
    kind = {"content-type": "application/json"}
    stuck.leave("POST", path, json.dumps(body).encode(), kind, after_s=0.1)
    log.close()
    with os.fdopen(reading, "rb") as lines, os.fdopen(writing, "wb"):
        line = json.loads(lines.readline())
    assert (line["protocol"], line["endpoint"], line["status"]) == (protocol, path, 499)
    labels = f'{{endpoint="{path}",protocol="{protocol}",status="499"}}'
    assert f"dragoman_gateway_requests_total{labels} 1.0" in stuck.gateway.metrics.text().decode()
