"""`dragoman serve`: Triton with the shipped model, or one's own."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys

from dragoman.commands.gateway_settings import of_serve
from dragoman.commands.serve_settings import SETTINGS, declare, resolve
from dragoman.kernel.errors import UsageError

HELP = "serve translations over HTTP and gRPC with Triton Inference Server"
EXTRA = "serve"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the settings."""
    declare(parser, (*SETTINGS, *of_serve()))


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM."""
    from dragoman_serving.launch.repository import shipped_repository
    from dragoman_serving.launch.serve_options import ServeOptions
    from dragoman_serving.launch.stop_signals import Stopped, stop_on_signals
    from dragoman_serving.launch.supervision import keep_serving

    resolved = resolve(arguments, os.environ, (*SETTINGS, *of_serve()))
    settings = resolved.values
    if settings["engine_timeout"] <= 0:
        raise UsageError(f"--engine-timeout {settings['engine_timeout']:g}: give seconds above 0")
    if settings["triton_growth"] <= 0:
        raise UsageError(f"--triton-growth {settings['triton_growth']}: give MiB above 0")
    stop_on_signals()
    options = ServeOptions(
        repository=settings["repository"] or shipped_repository(),
        address=settings["address"],
        http_port=settings["http_port"],
        grpc_port=settings["grpc_port"],
        metrics_port=settings["metrics_port"],
        expose_unpatched_server=settings["expose_unpatched_server"],
        log_verbose=settings["verbose"],
        config=settings["config"],
        more_models=tuple(settings["load"]),
        engine_timeout_s=settings["engine_timeout"],
        triton_growth_bytes=settings["triton_growth"] << 20,
        parameters=resolved.parameters,
    )
    try:
        keep_serving(
            options,
            restart=settings["on_failure"] == "restart",
            follow_bundle=settings["follow_bundle"],
            settings=resolved.description,
        )
    except Stopped:
        with contextlib.suppress(OSError):  # stderr may be closed
            print("stopped", file=sys.stderr)
    return 0
