"""`dragoman serve`: Triton with the shipped model, or one's own."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path

from dragoman.kernel.errors import UsageError

HELP = "serve translations over HTTP and gRPC with Triton Inference Server"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--repository",
        type=Path,
        help="Triton model repository (default: ./model_repository if it is there, else the "
        "installed dragoman-model)",
    )
    parser.add_argument("--address", default="127.0.0.1", help="IP address (default: 127.0.0.1)")
    for name, port in (("http", 8000), ("grpc", 8001), ("metrics", 8002)):
        parser.add_argument(
            f"--{name}-port", type=int, default=port, help=f"0: a free one (default: {port})"
        )
    parser.add_argument(
        "--expose-unpatched-server",
        action="store_true",
        help="let the embedded Triton 24.10, which has known remote holes, listen beyond loopback",
    )
    parser.add_argument(
        "--on-failure",
        choices=("exit", "restart"),
        default="restart",
        help="when Triton or the engine ends by itself, or the engine hangs (default: restart)",
    )
    parser.add_argument(
        "--engine-timeout",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="an engine that gives no sign of life for so long is killed (default: 10)",
    )
    parser.add_argument(
        "--follow-bundle",
        action="store_true",
        help="start again when the bundle gets TensorRT engines that fit this machine",
    )
    parser.add_argument(
        "--load",
        nargs="+",
        default=(),
        metavar="MODEL",
        help="models of the repository to load too, such as encoder and decoder",
    )
    parser.add_argument(
        "--config",
        metavar="NAME",
        help="run models under configs/NAME.pbtxt where they have it, such as encoder and decoder "
        "under onnxruntime or tensorrt, where Triton has these backends",
    )
    parser.add_argument("--verbose", action="store_true", help="show Triton's own log")


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM."""
    from dragoman_serving.launch.repository import shipped_repository
    from dragoman_serving.launch.serve_options import ServeOptions
    from dragoman_serving.launch.stop_signals import Stopped, stop_on_signals
    from dragoman_serving.launch.supervision import keep_serving

    if arguments.engine_timeout <= 0:
        raise UsageError(f"--engine-timeout {arguments.engine_timeout:g}: give seconds above 0")
    stop_on_signals()
    options = ServeOptions(
        repository=arguments.repository or shipped_repository(),
        address=arguments.address,
        http_port=arguments.http_port,
        grpc_port=arguments.grpc_port,
        metrics_port=arguments.metrics_port,
        expose_unpatched_server=arguments.expose_unpatched_server,
        log_verbose=arguments.verbose,
        config=arguments.config,
        more_models=tuple(arguments.load),
        engine_timeout_s=arguments.engine_timeout,
    )
    try:
        keep_serving(
            options,
            restart=arguments.on_failure == "restart",
            follow_bundle=arguments.follow_bundle,
        )
    except Stopped:
        with contextlib.suppress(OSError):  # stderr may be closed
            print("stopped", file=sys.stderr)
    return 0
