"""One window of the comparison's load, against a stand-in for the server.

What a closed loop counts is tested in `load_test/tests`.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest
from dragoman_client import InvalidRequest
from dragoman_client.testing import FakeServer

from lab.load import GENERATOR, MACHINE, LoadJob, LoadPlan, run
from lab.processor_time import cpu_s, machine_busy_s

PLAN = LoadPlan(concurrency=3, warm_up_s=0.05, duration_s=0.25)


def translate(text: str) -> str:
    if text == "bad":
        raise InvalidRequest("too bad")
    return text


def test_a_job_counts_sentences_and_errors_and_watches_processes() -> None:
    with FakeServer(translate) as server:
        address = server.grpc_url.removeprefix("grpc://")
        job = LoadJob(address, ["good", "bad"], {"beam_width": 1}, PLAN, {"me": [os.getpid()]})
        result = asyncio.run(run(job))
        sent = [text for request in server.requests for text in request.inputs["text_input"]]
    assert 0 < result.sentences <= sent.count("good")
    assert result.sentences_per_s == pytest.approx(result.sentences / PLAN.duration_s)
    assert result.output_tokens >= result.sentences
    assert 0 < result.latency.p50_ms <= result.latency.max_ms
    assert result.errors == {"InvalidRequest: too bad": sent.count("bad")}
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
