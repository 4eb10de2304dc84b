"""The load generator, against a small server in this process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2

from benchmarks.infer_request import Option, build_request, read_answer
from benchmarks.latency import LatencyHistogram
from benchmarks.load import GENERATOR, LoadPlan, endless, run_load
from benchmarks.load_process import MACHINE, LoadJob, run_job
from benchmarks.processor_time import cpu_s, machine_busy_s

PLAN = LoadPlan(concurrency=3, warm_up_s=0.05, duration_s=0.25)


def answer(*texts: str, tokens: int) -> Any:
    """A response as Triton writes it, of `tokens` tokens a text."""
    response = service_pb2.ModelInferResponse()
    encoded = [text.encode() for text in texts]
    strings = b"".join(len(one).to_bytes(4, "little") + one for one in encoded)
    numbers = tokens.to_bytes(4, "little") * len(texts)
    for name, raw in (("text_output", strings), ("output_tokens", numbers)):
        response.outputs.add(name=name)
        response.raw_output_contents.append(raw)
    return response


def text_of(request: Any) -> str:
    raw: bytes = request.raw_input_contents[0]
    return raw[4:].decode()


class FakeTriton:
    """Takes note of the texts and of how many requests came at once."""

    def __init__(self, respond: Callable[[str, Any], Any]) -> None:
        self.texts: Counter[str] = Counter()
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()
        self._respond = respond

    def infer(self, request: Any, context: Any) -> Any:
        text = text_of(request)
        with self._lock:
            self.texts[text] += 1
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        time.sleep(0.01)
        with self._lock:
            self._at_once -= 1
        return self._respond(text, context)

    @contextmanager
    def serving(self) -> Iterator[str]:
        """The address of a running server."""

        def handler(behavior: Any, request: Any, response: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(
                behavior, request.FromString, response.SerializeToString
            )

        pb2 = service_pb2
        methods = {
            "ModelInfer": handler(self.infer, pb2.ModelInferRequest, pb2.ModelInferResponse),
        }
        server = grpc.server(ThreadPoolExecutor(8))
        service = "inference.GRPCInferenceService"
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, methods)])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            server.stop(None).wait()


def test_a_request_is_what_triton_reads() -> None:
    options: dict[str, Option] = {"target_language": "de", "beam_width": 4, "length_penalty": 0.5}
    request = service_pb2.ModelInferRequest.FromString(build_request("Grüße", options))
    assert request.model_name == "translate"
    assert [(tensor.name, tensor.datatype) for tensor in request.inputs] == [
        ("text_input", "BYTES"),
        ("target_language", "BYTES"),
        ("beam_width", "INT32"),
        ("length_penalty", "FP32"),
    ]
    assert list(request.raw_input_contents) == [
        b"\x07\x00\x00\x00" + "Grüße".encode(),
        b"\x02\x00\x00\x00de",
        b"\x04\x00\x00\x00",
        b"\x00\x00\x00\x3f",
    ]
    assert [output.name for output in request.outputs] == ["text_output", "output_tokens"]
    assert {tuple(tensor.shape) for tensor in request.inputs} == {(1, 1)}


def test_an_answer_is_read() -> None:
    read = read_answer(answer("Gruß", "", "ja", tokens=300).SerializeToString())
    assert (read.texts, read.tokens) == (("Gruß", "", "ja"), 900)


@pytest.mark.parametrize("message", [b"\xff", b""])
def test_something_else_is_no_answer(message: bytes) -> None:
    with pytest.raises(ValueError, match="not an answer of the model translate"):
        read_answer(message)


def test_every_request_is_sent_before_one_is_sent_again() -> None:
    requests = [bytes([number]) for number in range(20)]
    source = endless(requests, seed=1)
    first, second = list(islice(source, 20)), list(islice(source, 20))
    assert sorted(first) == requests != first
    assert second == first == list(islice(endless(requests, seed=1), 20))
    assert first != list(islice(endless(requests, seed=2), 20))


def test_percentiles_of_merged_histograms() -> None:
    fast, slow = LatencyHistogram(), LatencyHistogram()
    for number in range(1, 51):
        fast.record(0.001 * number)
        slow.record(0.001 * (50 + number))
    found = LatencyHistogram.merge([fast.encode(), slow.encode()]).summary()
    assert found.p50_ms == pytest.approx(50, rel=0.001)
    assert found.p99_ms == pytest.approx(99, rel=0.001)
    assert found.max_ms == pytest.approx(100, rel=0.001)
    assert LatencyHistogram().summary().max_ms == 0


def test_a_closed_loop_counts_what_is_answered_in_time() -> None:
    texts = [f"text {number}" for number in range(7)]
    triton = FakeTriton(lambda text, _: answer(text, tokens=3))
    with triton.serving() as address:
        requests = [build_request(text, {}) for text in texts]
        result = run_load(address, requests, PLAN)
    assert triton.most_at_once == PLAN.concurrency
    assert max(triton.texts.values()) - min(triton.texts.values()) <= 1
    assert 0 < result.sentences < triton.texts.total()  # what warmed up is not counted
    assert result.output_tokens == 3 * result.sentences
    assert result.sentences_per_s == pytest.approx(result.sentences / result.elapsed_s)
    assert result.elapsed_s >= PLAN.duration_s
    assert 10 <= result.latency.p50_ms <= result.latency.max_ms
    assert not result.errors
    assert set(result.cpu_s) == {GENERATOR}


def test_errors_are_counted_by_message_and_not_as_sentences() -> None:
    def respond(text: str, context: Any) -> Any:
        if text == "bad":
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "too bad")
        if text == "odd":
            return service_pb2.ModelInferResponse()
        return answer(text, tokens=1)

    triton = FakeTriton(respond)
    with triton.serving() as address:
        requests = [build_request(text, {}) for text in ("good", "bad", "odd")]
        result = run_load(address, requests, PLAN)
    assert result.errors["INVALID_ARGUMENT: too bad"] == triton.texts["bad"]
    assert sum(result.errors.values()) == triton.texts["bad"] + triton.texts["odd"]
    assert result.sentences <= triton.texts["good"]


def test_a_server_that_is_away_is_an_error_and_not_a_wait() -> None:
    result = run_load("127.0.0.1:1", [b""], PLAN)
    assert result.sentences == 0
    assert all(message.startswith("UNAVAILABLE") for message in result.errors)
    assert result.errors


def test_a_job_watches_processes() -> None:
    triton = FakeTriton(lambda text, _: answer(text, tokens=1))
    with triton.serving() as address:
        job = LoadJob(address, ["a", "b"], {"beam_width": 1}, PLAN, {"me": [os.getpid()]})
        result = run_job(job)
    assert set(result.cpu_s) == {GENERATOR, MACHINE, "me"}
    assert result.cpu_s["me"] == pytest.approx(result.cpu_s[GENERATOR], abs=0.05)


def test_cpu_seconds_are_those_of_the_processes() -> None:
    code = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        before = machine_busy_s()
        assert process.stdout is not None
        process.stdout.readline()
        assert 0.25 < cpu_s([process.pid]) < 1
        assert machine_busy_s() - before > 0.1
        process.communicate(b"\n")
    with pytest.raises(OSError, match="No such file"):
        cpu_s([process.pid])
