"""gRPC streams that are abandoned early: none is cancelled."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from typing import Any

import grpc
import pytest
from dragoman_client import AsyncTranslator, DeadlineExceeded, ServerError, Translator
from dragoman_client.testing import translated
from dragoman_client.testing.answers import Answers
from dragoman_client.testing.server import GrpcService
from dragoman_load_test.requests.senders import open_senders
from dragoman_load_test.requests.target import Target
from faulty_servers import SlowGrpc, grpc_service
from server_fixtures import Either
from tritonclient.grpc import service_pb2

WAIT_S = 30.0
TIMEOUT_S = 0.2


def check_whole(service: SlowGrpc) -> None:
    """Check that a call ended on the server without a cancellation."""
    assert service.over.wait(WAIT_S)
    assert service.was_cancelled is False


def test_a_timeout_does_not_cancel(slow: tuple[str, SlowGrpc]) -> None:
    """The error is raised in time, and the translator is closed without waiting for the stream."""
    url, service = slow
    with Translator(url, timeout_s=TIMEOUT_S) as translator:
        begin_s = time.monotonic()
        with pytest.raises(DeadlineExceeded):
            next(iter(translator.translate_stream("abc")))
        assert time.monotonic() - begin_s < TIMEOUT_S + WAIT_S
    assert service.came.wait(WAIT_S)
    time.sleep(0.3)
    service.go_on.set()
    check_whole(service)


def test_the_end_of_the_process_does_not_cancel(slow: tuple[str, SlowGrpc]) -> None:
    """The process waits for the end of the stream."""
    url, service = slow
    code = (
        "from dragoman_client import Translator, DeadlineExceeded\n"
        f"translator = Translator({url!r}, timeout_s=3)\n"
        "try: next(iter(translator.translate_stream('abc')))\n"
        "except DeadlineExceeded: print('left', flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "left\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        service.go_on.set()
        assert process.wait(WAIT_S) == 0
    check_whole(service)


async def test_a_cancelled_task_does_not_cancel(slow: tuple[str, SlowGrpc]) -> None:
    """The task ends immediately; closing the translator waits for the end of the stream."""
    url, service = slow
    async with AsyncTranslator(url) as translator:
        task = asyncio.create_task(anext(translator.translate_stream("abc")))
        await asyncio.to_thread(service.came.wait, WAIT_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        left_first = not service.go_on.is_set()
        asyncio.get_running_loop().call_later(0.3, service.go_on.set)
    assert left_first
    check_whole(service)


async def test_the_load_test_does_not_cancel(slow: tuple[str, SlowGrpc]) -> None:
    """Neither a timeout nor the end of the load test cancels a stream."""
    url, service = slow

    target = Target.of(url, streamed=True, timeout_s=TIMEOUT_S)
    async with open_senders(target, [["abc"]]) as (send,):
        with pytest.raises(DeadlineExceeded):
            await send()
        asyncio.get_running_loop().call_later(0.3, service.go_on.set)
    check_whole(service)


@pytest.mark.parametrize("most", [1, None])
async def test_a_stream_that_is_closed_or_read_to_its_end_is_not_cancelled(
    either: Either, slow: tuple[str, SlowGrpc], most: int | None
) -> None:
    """A cancellation after the first message can crash Triton, or leave an open socket in it."""
    url, service = slow
    service.go_on.set()
    async with either(url) as client:
        assert (await client.parts("abc" * 100, most))[0].text
    check_whole(service)


class WithoutStreams(GrpcService):
    """A service behind a proxy that does not forward streams."""

    def ModelStreamInfer(self, _requests: Any, context: Any) -> Any:  # noqa: N802
        """Abort with the status UNIMPLEMENTED."""
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "Received http2 header with status: 404")
        yield service_pb2.ModelStreamInferResponse()


async def test_missing_streams_are_reported_with_the_url_of_http(either: Either) -> None:
    """The message recommends the URL of HTTP, in one line."""
    with grpc_service(WithoutStreams(Answers(translated))) as url:
        async with either(url) as client:
            with pytest.raises(ServerError) as caught:
                await client.parts("abc")
    assert str(caught.value) == (
        f"{url} has no streams over gRPC: for translate_stream use http{url.removeprefix('grpc')}"
    )
