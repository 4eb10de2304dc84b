"""A server's information about itself, the bundle that translated, and the request."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from dragoman_client.core.request import build_inputs
from dragoman_client.transports.grpc_wire import infer_request, stream_request
from dragoman_export.publishing import publish
from dragoman_options.table import INFO, STREAM, TRANSLATE
from tritonclient.grpc import service_pb2
from tritonclient.grpc.service_pb2_grpc import GRPCInferenceServiceStub

from dragoman import __version__
from dragoman.kernel.manifest import Manifest
from tests.integration.test_served_translations import BUNDLE
from tests.servers import Served, serving

OF_AN_OLDER_RELEASE = """
max_batch_size: 128
input [
  { name: "text_input" data_type: TYPE_STRING dims: [ -1 ] },
  { name: "beam_width" data_type: TYPE_INT32 dims: [ 1 ] optional: true }
]
output [ { name: "text_output" data_type: TYPE_STRING dims: [ -1 ] } ]
parameters { key: "languages" value: { string_value: "en,de" } }
"""


@pytest.fixture(scope="module")
def older(random_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server of a repository that an older release published."""
    repository = tmp_path_factory.mktemp("older") / "repository"
    publish(random_bundle, repository)
    config = repository / "translate" / "config.pbtxt"
    config.write_text(config.read_text(encoding="utf-8") + OF_AN_OLDER_RELEASE, encoding="utf-8")
    with serving(repository) as running:
        yield running


def test_info_is_the_same_over_both_protocols(shipped: Served) -> None:
    info = shipped.grpc.info()
    assert info == shipped.http.info()
    manifest = Manifest.load(BUNDLE)
    assert info.version == __version__
    assert info.languages == manifest.languages == shipped.http.languages()
    assert info.directions == manifest.all_directions
    assert [bundle["identity"] for bundle in info.bundles] == [manifest.identity]
    assert info.metrics_port == shipped.server.ports.metrics
    assert info.limits["max_beam_width"] == manifest.limits.max_beam_width
    assert info.options["beam_width"]["range"]["most"] == manifest.limits.max_beam_width


@pytest.mark.parametrize("body", [{"text_input": "a"}, {"beam_width": 4}])
def test_info_takes_no_input(shipped: Served, body: dict[str, Any]) -> None:
    status, answer = shipped.generate(body, INFO)
    message = f'info takes no {next(iter(body))} {{"kind":"invalid"}}'
    assert (status, answer["error"]) == (400, message)


def test_answers_carry_the_requests_id(shipped: Served) -> None:
    body = {"id": "a-7", "text_input": "Good morning."}
    status, answer = shipped.generate(body)
    assert (status, answer["id"]) == (200, "a-7")
    assert shipped.events(**body)[-1]["id"] == "a-7"
    inputs = build_inputs(["Good morning."], {})
    with grpc.insecure_channel(shipped.server.grpc_url.removeprefix("grpc://")) as channel:
        service = GRPCInferenceServiceStub(channel)
        request = infer_request(TRANSLATE, inputs, 30.0)
        request.id = "a-8"
        assert service.ModelInfer(request).id == "a-8"
        request = stream_request(STREAM, inputs, 30.0)
        request.id = "a-9"
        (*_, last) = service.ModelStreamInfer(iter([request]))
        assert last.infer_response.id == "a-9"


def test_an_older_repository_serves_current_options(older: Served) -> None:
    for client in (older.grpc, older.http):
        translation = client.translate("red", beam_width=2, return_scores=True, return_bundle=True)
        assert translation.score is not None
        assert translation.bundle == client.info().bundles[0]["identity"]
    with grpc.insecure_channel(older.server.grpc_url.removeprefix("grpc://")) as channel:
        service = GRPCInferenceServiceStub(channel)
        metadata = service.ModelMetadata(service_pb2.ModelMetadataRequest(name=TRANSLATE))
        assert "return_bundle" in [field.name for field in metadata.inputs]
