"""Endpoints that could load code, stop a model or write files are closed, however spelled.

gRPC requests are written as raw HTTP/2 frames, since the libraries refuse what an attacker can
send.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import tritonclient.grpc as triton_grpc
from dragoman_serving.launch.ports import free_ports
from google.protobuf.message import Message
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException

from tests.exchanges import send
from tests.integration.http2_frames import end_of_stream, literal, message_frame, request_frames
from tests.servers import Served, serving

_TIMEOUT_S = 60
_PREFIX = b"triton-grpc-protocol-"
"""Prefix that Triton puts before the name of the header that opens gRPC endpoints."""
_VALUES = (b"\n\n", b"", b"x", b"\r\n\r\n")
_SPELLINGS = [
    *((_PREFIX + b"dragoman-closed", value) for value in _VALUES),
    *((_PREFIX + b"Dragoman Closed:", value) for value in _VALUES),
    *((_PREFIX + b"dragoman closed:", b"\n\n"), (_PREFIX + b"dragoman closed", b"\n\n")),
    *((_PREFIX + b"Dragoman-Closed", b"\n\n"), (_PREFIX + b"Dragoman Closed", b":\n\n")),
    (b":" + _PREFIX + b"Dragoman Closed:", b"\n\n"),
    *((b"dragoman-closed", b"\n\n"), (b"Dragoman Closed:", b"\n\n")),
]


@pytest.fixture(autouse=True)
def goes_on_serving(shipped: Served) -> Iterator[None]:
    """After each test the same process still translates."""
    yield
    assert shipped.grpc.translate("I'm hungry.").text == "Ich habe Hunger."


def call(port: int, method: str, message: Message, header: bytes) -> bytes:
    """Send one gRPC request with a further header field, as raw frames.

    Returns:
        The payload of the frame that ended it: trailers, or a reset of the stream or connection;
        empty if the connection was closed without one.
    """
    path = f"/inference.GRPCInferenceService/{method}"
    with socket.create_connection(("127.0.0.1", port), _TIMEOUT_S) as connection:
        frames = request_frames(path, header) + message_frame(message.SerializeToString())
        connection.sendall(frames)
        return end_of_stream(connection)


def load_request(marker: Path) -> service_pb2.RepositoryModelLoadRequest:
    """A request to load a Python model that it contains, and that writes a file."""
    request = service_pb2.RepositoryModelLoadRequest(model_name="proof")
    request.parameters["config"].string_param = json.dumps(
        {
            "name": "proof",
            "backend": "python",
            "input": [{"name": "a", "data_type": "TYPE_INT32", "dims": [1]}],
            "output": [{"name": "b", "data_type": "TYPE_INT32", "dims": [1]}],
        }
    )
    request.parameters["file:1/model.py"].bytes_param = (
        f"open({str(marker)!r}, 'w').close()\n"
        "class TritonPythonModel:\n    def execute(self, requests): return []\n"
    ).encode()
    return request


def dangerous_calls(marker: Path) -> dict[str, Message]:
    """A request of each closed category that does harm if it is accepted."""
    log = service_pb2.LogSettingsRequest()
    log.settings["log_file"].string_param = str(marker)
    trace = service_pb2.TraceSettingRequest()
    trace.settings["trace_file"].value.append(str(marker))
    return {
        "RepositoryIndex": service_pb2.RepositoryIndexRequest(),
        "RepositoryModelLoad": load_request(marker),
        "RepositoryModelUnload": service_pb2.RepositoryModelUnloadRequest(model_name="score"),
        "LogSettings": log,
        "TraceSetting": trace,
        "SystemSharedMemoryStatus": service_pb2.SystemSharedMemoryStatusRequest(),
        "SystemSharedMemoryRegister": service_pb2.SystemSharedMemoryRegisterRequest(
            name="proof", key="/proof", byte_size=1
        ),
        "CudaSharedMemoryStatus": service_pb2.CudaSharedMemoryStatusRequest(),
    }


@pytest.mark.parametrize("method", dangerous_calls(Path()))
def test_no_header_opens_a_closed_grpc_endpoint(
    shipped: Served, tmp_path: Path, method: str
) -> None:
    port, marker = shipped.server.ports.grpc, tmp_path / "marker"
    request = dangerous_calls(marker)[method]
    for name, value in _SPELLINGS:
        # Without indexing, never indexed, and with indexing.
        for representation in (0x00, 0x10, 0x40):
            end = call(port, method, request, literal(name, value, representation))
            is_refused = b"is restricted, expecting header" in end
            assert is_refused or b"grpc-status" not in end, (name, value, end)
    assert not marker.exists()


def test_the_raw_frames_reach_open_endpoints(shipped: Served) -> None:
    """Without this check, the test above would pass with frames that gRPC cannot read."""
    end = call(shipped.server.ports.grpc, "ServerLive", service_pb2.ServerLiveRequest(), b"")
    assert b"grpc-status\x010" in end


@pytest.mark.parametrize("name", [b"a-Capital", b"a space", b"a:colon"])
def test_grpc_refuses_the_names_in_the_closed_header(shipped: Served, name: bytes) -> None:
    live = service_pb2.ServerLiveRequest()
    assert b"grpc-status" not in call(
        shipped.server.ports.grpc, "ServerLive", live, literal(name, b"x")
    )


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v2/repository/models/score/unload"),
        ("POST", "/v2/repository/index"),
        ("POST", "/v2/repository/models/proof/load"),
        ("GET", "/v2/systemsharedmemory/status"),
        ("POST", "/v2/systemsharedmemory/region/proof/register"),
        ("GET", "/v2/cudasharedmemory/status"),
        ("GET", "/v2/trace/setting"),
        ("POST", "/v2/models/translate/trace/setting"),
        ("POST", "/v2/logging"),
    ],
)
def test_no_header_opens_a_closed_http_endpoint(shipped: Served, method: str, path: str) -> None:
    refused = send(f"{shipped.server.http_url}{path}", b"{}", method=method)
    assert refused.status == 403
    assert "restricted" in refused.json["error"]
    values = (b"", b"x", b"\n\n", b"\r\n \r\n \r\n", b" \n \n", b"%0a%0a")
    for name in (b"dragoman-closed", b"Dragoman Closed", b"Dragoman Closed:", b"Dragoman Closed:="):
        for value in values:
            answer = raw_http(shipped, method, path, name + b":" + value)
            assert not answer or answer.startswith(b"HTTP/1.1 403 "), (name, value, answer)


def raw_http(served: Served, method: str, path: str, header: bytes) -> bytes:
    """Send one request with a raw header line; empty if the server closes the connection."""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
    address = ("127.0.0.1", served.server.ports.http)
    with socket.create_connection(address, _TIMEOUT_S) as connection:
        connection.sendall(head.encode() + header + b"\r\nConnection: close\r\n\r\n{}")
        try:
            return connection.recv(4096)
        except ConnectionResetError:
            return b""


def test_a_usual_grpc_client_is_refused_too(shipped: Served) -> None:
    address = shipped.server.grpc_url.removeprefix("grpc://")
    with triton_grpc.InferenceServerClient(address) as client:
        for request in (
            lambda: client.unload_model("score"),
            client.get_model_repository_index,
            client.get_system_shared_memory_status,
            client.get_cuda_shared_memory_status,
            client.get_trace_settings,
            client.get_log_settings,
        ):
            with pytest.raises(InferenceServerException, match="restricted, expecting header"):
                request()


def test_only_backends_that_a_model_names_are_installed(shipped: Served) -> None:
    """Triton's own `python` backend would run a model's code."""
    arguments = Path(f"/proc/{shipped.server.pid}/cmdline").read_bytes().split(b"\0")
    (given,) = (argument for argument in arguments if argument.startswith(b"--backend-directory="))
    folder = Path(given.decode().partition("=")[2])
    assert [path.name for path in folder.iterdir()] == ["dragoman"]


def test_vertex_ai_variables_open_no_further_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton would listen there on every address, and none of the endpoints would be closed."""
    (port,) = free_ports(1)
    monkeypatch.setenv("AIP_MODE", "PREDICTION")
    monkeypatch.setenv("AIP_HTTP_PORT", str(port))
    with serving() as served:
        assert served.http.translate("I'm hungry.").text == "Ich habe Hunger."
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), _TIMEOUT_S)
