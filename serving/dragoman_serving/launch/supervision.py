"""Supervision: serves, and restarts processes that exit."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from dragoman.kernel.errors import DragomanError, UsageError
from dragoman_serving.launch.backoff import Backoff
from dragoman_serving.launch.gateway_process import GatewayOptions, GatewayProcess
from dragoman_serving.launch.launcher import Ended, TritonServer
from dragoman_serving.launch.ports import PortInUse
from dragoman_serving.launch.serve_options import ServeOptions
from dragoman_serving.launch.stop_signals import Stopped
from dragoman_serving.launch.triton_process import DRAIN_S, TritonCrashed

_CRASHED_RUN_S = 0.001
_WITHOUT_TRITON = "without Triton (--no-triton): only the gateway answers"
STOPPING = (
    f"stopping: requests in flight have {DRAIN_S} s to finish; Ctrl-C once more ends them at once"
)


def keep_serving(
    options: ServeOptions,
    *,
    restart: bool = True,
    follow_bundle: bool = False,
    settings: str = "",
    hint: str = "",
    gateway: GatewayOptions | None = None,
) -> None:
    """Serve until an exception ends it, such as `Stopped`.

    Args:
        options: options of the server.
        restart: restart processes that exit, on the same ports.
        follow_bundle: also restart when the bundle can run with another layout.
        settings: description of the settings that differ from the defaults, to be logged.
        hint: another line to log once.
        gateway: options of a gateway next to the server; its requests finish first at a stop.

    Raises:
        UsageError: the options are not valid, or not available on this machine.
        StartFailed: the first start failed.
        DragomanError: the server or the gateway exited, and `restart` is off.
    """
    backoff = Backoff()
    if gateway is not None:
        gateway.refuse_port_in_use()
    with TritonServer(options) as server, contextlib.ExitStack() as stack:
        look: Callable[[], None] | None = None
        doors = [f"{server.http_url} and {server.grpc_url}"] if options.triton else []
        if gateway is not None:
            urls = {
                "DRAGOMAN_GATEWAY_TRITON": server.engine_url or server.grpc_url,
                "DRAGOMAN_GATEWAY_TRITON_HTTP": server.http_url,
            }
            process = stack.enter_context(GatewayProcess(gateway, urls, server.say))
            look = process.look
            doors = [*(f"{door} (Triton)" for door in doors), f"{process.url} (gateway)"]
        without = "" if options.triton else _WITHOUT_TRITON
        for line in (f"settings: {settings}" if settings else "", without, hint):
            if line:
                server.say(line)
        while True:
            begin_s = time.monotonic()
            server.say(f"ready: {', '.join(doors)}")
            try:
                ended = server.wait(follow_bundle, look)
            except Stopped:
                server.say(STOPPING)
                raise
            if ended.is_failure and not restart:
                server.stop(drain=False)
                raise DragomanError(ended.reason)
            server.say(f"{ended.reason}; starting again")
            _start_again(server, ended, backoff, time.monotonic() - begin_s)


def _start_again(server: TritonServer, ended: Ended, backoff: Backoff, ran_s: float) -> None:
    if ended.is_failure:
        server.end_triton()  # without the engine it would answer with misleading errors
    while True:
        if delay_s := backoff.delay_s(ran_s):
            server.say(f"trying again in {delay_s:g} s")
            time.sleep(delay_s)
        try:
            server.start_again(anew=not ended.is_failure)
        except (DragomanError, OSError) as error:
            if isinstance(error, UsageError) and not isinstance(error, PortInUse):
                raise  # another start would not help
            server.say(f"the start failed: {error}")
            # A crash of Triton during the start counts as a short run: the engine is still loaded.
            ran_s = _CRASHED_RUN_S if isinstance(error, TritonCrashed) else 0.0
        else:
            return
