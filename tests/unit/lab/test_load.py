"""One window of the comparison's load, against a small server in this process."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2

from lab.load import GENERATOR, MACHINE, LoadJob, LoadPlan, LoadResult, run
from lab.processor_time import cpu_s, machine_busy_s

PLAN = LoadPlan(concurrency=3, warm_up_s=0.05, duration_s=0.25)


def run_load(address: str, texts: Sequence[str]) -> LoadResult:
    return asyncio.run(run(LoadJob(address, texts, {}, PLAN)))


def answer(*texts: str, tokens: int) -> Any:
    """A response in Triton's format, of `tokens` tokens for each text."""
    response = service_pb2.ModelInferResponse()
    encoded = [text.encode() for text in texts]
    strings = b"".join(len(text).to_bytes(4, "little") + text for text in encoded)
    numbers = tokens.to_bytes(4, "little") * len(texts)
    for name, raw in (("text_output", strings), ("output_tokens", numbers)):
        response.outputs.add(name=name)
        response.raw_output_contents.append(raw)
    return response


def text_of(request: Any) -> str:
    raw: bytes = request.raw_input_contents[0]
    return raw[4:].decode()


class FakeTriton:
    """Records the texts and the largest number of concurrent requests."""

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


def test_a_closed_loop_counts_answers_in_time() -> None:
    texts = [f"text {number}" for number in range(7)]
    triton = FakeTriton(lambda text, _: answer(text, tokens=3))
    with triton.serving() as address:
        result = run_load(address, texts)
    assert triton.most_at_once == PLAN.concurrency
    assert max(triton.texts.values()) - min(triton.texts.values()) <= 1
    assert 0 < result.sentences < triton.texts.total()  # the warm-up is not counted
    assert result.output_tokens == 3 * result.sentences
    assert result.sentences_per_s == pytest.approx(result.sentences / result.elapsed_s)
    assert result.elapsed_s >= PLAN.duration_s
    assert 10 <= result.latency.p50_ms <= result.latency.max_ms
    assert not result.errors
    assert set(result.cpu_s) == {GENERATOR, MACHINE}


def test_errors_are_counted_by_message_and_not_as_sentences() -> None:
    def respond(text: str, context: Any) -> Any:
        if text == "bad":
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "too bad")
        if text == "odd":
            return service_pb2.ModelInferResponse()
        return answer(text, tokens=1)

    triton = FakeTriton(respond)
    with triton.serving() as address:
        result = run_load(address, ("good", "bad", "odd"))
    assert result.errors["InvalidRequest: too bad"] == triton.texts["bad"]
    assert sum(result.errors.values()) == triton.texts["bad"] + triton.texts["odd"]
    assert result.sentences <= triton.texts["good"]


def test_a_job_watches_processes() -> None:
    triton = FakeTriton(lambda text, _: answer(text, tokens=1))
    with triton.serving() as address:
        job = LoadJob(address, ["a", "b"], {"beam_width": 1}, PLAN, {"me": [os.getpid()]})
        result = asyncio.run(run(job))
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
