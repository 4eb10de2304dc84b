"""The deployment's proxy in front of a running server, where NGINX is installed."""

from __future__ import annotations

import json
import queue
import shutil
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from string import Template

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import trustme
from dragoman_client import AccessDenied, Translator
from tritonclient.utils import InferenceServerException

from serving.launcher import free_ports
from tests.conftest import REPOSITORY
from tests.integration.conftest import Served, tensor

NGINX = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
RATE = 50

pytestmark = pytest.mark.skipif(NGINX is None, reason="needs nginx, which is not installed here")


@dataclass(frozen=True)
class Proxy:
    """A running proxy."""

    port: int
    certificate: Path

    def ask(self, path: str, body: bytes | None = None, token: str | None = "secret") -> int:
        """The status of an answer."""
        return self.answer(path, body, token)[0]

    def answer(self, path: str, body: bytes | None, token: str | None) -> tuple[int, bytes]:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        request = urllib.request.Request(
            f"https://localhost:{self.port}{path}", data=body, headers=headers
        )
        context = ssl.create_default_context(cafile=str(self.certificate))
        try:
            with urllib.request.urlopen(request, timeout=60, context=context) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, b""


@pytest.fixture(scope="module")
def proxy(shipped: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("proxy")
    (port,) = free_ports(1)
    authority = trustme.CA()
    own = authority.issue_cert("localhost")
    certificate = folder / "ca.pem"
    authority.cert_pem.write_to_path(str(certificate))
    own.private_key_pem.write_to_path(str(folder / "privkey.pem"))
    own.cert_chain_pems[0].write_to_path(str(folder / "fullchain.pem"))
    ports = shipped.server.ports
    template = (REPOSITORY / "deploy" / "nginx" / "dragoman.conf.template").read_text()
    site = Template(template).safe_substitute(DRAGOMAN_TOKEN="secret", DRAGOMAN_RATE=RATE)
    for here, there in (
        ("triton:8000", f"127.0.0.1:{ports.http}"),
        ("triton:8001", f"127.0.0.1:{ports.grpc}"),
        ("listen 8443", f"listen 127.0.0.1:{port}"),
        ("/etc/nginx/tls", str(folder)),
    ):
        assert here in site
        site = site.replace(here, there)
    (folder / "site.conf").write_text(site)
    kept = "".join(
        f"{kind}_temp_path {folder}/{kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    configuration = folder / "nginx.conf"
    configuration.write_text(
        f"daemon off; pid {folder}/pid; error_log {folder}/errors; events {{}}"
        f" http {{ {kept} include {folder}/site.conf; }}"
    )
    running = subprocess.Popen([str(NGINX), "-c", str(configuration)], stderr=subprocess.PIPE)
    found = Proxy(port, certificate)
    try:
        for _ in range(100):
            try:
                if found.ask("/v2/health/ready") == 200:
                    break
            except urllib.error.URLError:
                assert running.poll() is None, running.stderr and running.stderr.read()
            time.sleep(0.1)
        yield found
    finally:
        running.terminate()
        running.communicate(timeout=30)


def test_a_token_opens_translation_and_nothing_else(proxy: Proxy) -> None:
    generate, body = "/v2/models/translate/generate", b'{"text_input": "Good morning."}'
    status, answer = proxy.answer(generate, body, "secret")
    assert (status, json.loads(answer)["text_output"]) == (200, "Gute Morgen!")
    assert proxy.ask(generate, body, token=None) == 401
    assert proxy.ask(generate, body, token="guess") == 401
    for path in ("/v2/models/encoder", "/v2/repository/index", "/metrics", "/v2/logging", "/"):
        assert proxy.ask(path, b"{}") == 404
    assert proxy.ask(generate, b"a" * (9 << 20)) == 413
    status, answer = proxy.answer("/v2/models/translate_stream/generate_stream", body, "secret")
    assert status == 200
    assert answer.count(b"data: ") >= 1


def test_grpc_goes_the_same_way(proxy: Proxy) -> None:
    token = {"authorization": "Bearer secret"}
    with triton_grpc.InferenceServerClient(
        f"localhost:{proxy.port}", ssl=True, root_certificates=str(proxy.certificate)
    ) as client:
        found = client.infer("translate", [tensor(["Good morning."])], headers=token)
        assert found.as_numpy("text_output").item() == b"Gute Morgen!"
        for wrong in ({}, {"authorization": "Bearer guess"}):
            with pytest.raises(InferenceServerException, match="UNAUTHENTICATED"):
                client.infer("translate", [tensor(["a"])], headers=wrong)
        with pytest.raises(InferenceServerException, match="UNIMPLEMENTED"):
            client.get_model_repository_index(headers=token)
        answers: list[object] = []
        client.start_stream(lambda result, error: answers.append(error or result), headers=token)
        client.async_stream_infer("translate_stream", [_one_text("Good morning.")])
        client.stop_stream()
        assert answers
        assert isinstance(answers[-1], triton_grpc.InferResult)


def _one_text(text: str) -> triton_grpc.InferInput:
    found = triton_grpc.InferInput("text_input", [1], "BYTES")
    found.set_data_from_numpy(np.array([text.encode()], np.object_))
    return found


def test_nobody_turns_on_tritons_strict_streams(proxy: Proxy) -> None:
    """In which a refusal ends Triton before 26.04; an error in them would have a status."""
    answers: queue.Queue[object] = queue.Queue()
    with triton_grpc.InferenceServerClient(
        f"localhost:{proxy.port}", ssl=True, root_certificates=str(proxy.certificate)
    ) as client:
        headers = {"authorization": "Bearer secret", "triton_grpc_error": "true"}
        client.start_stream(lambda result, error: answers.put(error or result), headers=headers)
        client.async_stream_infer("translate_stream", [_one_text("")])
        refusal = answers.get(timeout=60)
    assert isinstance(refusal, InferenceServerException)
    assert (refusal.status(), refusal.message()) == (None, "INVALID_ARGUMENT: text 0 is empty")


@pytest.mark.parametrize("scheme", ["grpcs", "https"])
def test_our_client_gets_through(proxy: Proxy, scheme: str) -> None:
    url = f"{scheme}://localhost:{proxy.port}"
    with Translator(url, token="secret", ca_file=proxy.certificate) as translator:
        assert translator.translate("Good morning.").text == "Gute Morgen!"
    with (
        Translator(url, token="guess", ca_file=proxy.certificate) as translator,
        pytest.raises(AccessDenied),
    ):
        translator.translate("Good morning.")


def test_haste_is_refused(proxy: Proxy) -> None:
    """Of those without a token, too."""
    time.sleep(1.5)  # what the other tests have asked for is forgotten
    statuses = [proxy.ask("/v2/health/ready") for _ in range(6 * RATE)]
    assert set(statuses) == {200, 429}
    generate, body = "/v2/models/translate/generate", b'{"text_input": "a"}'
    assert {proxy.ask(generate, body, token="guess") for _ in range(6 * RATE)} == {401, 429}
