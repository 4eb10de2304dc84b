"""`dragoman gateway`: REST, the web page, keys and documents in front of a running Triton."""

from __future__ import annotations

import argparse
import os

from dragoman.commands.shared.gateway_settings import (
    as_settings,
    gateway_settings,
    refuse_passwords,
    warn_of_misspelled,
)
from dragoman.commands.shared.serve_settings import SETTINGS, declare, resolve

HELP = "serve REST, the web page, keys and documents in front of a running Triton"
EXTRA = "gateway"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the settings."""
    declare(parser, gateway_settings(), short=True)
    # For `dragoman serve`: a pipe for heartbeats, and a listening socket.
    parser.add_argument("--heartbeat", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--socket", type=int, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM."""
    from dragoman_gateway.serving import serve

    refuse_passwords(arguments)
    if arguments.heartbeat is None:  # otherwise `dragoman serve` has warned
        warn_of_misspelled(os.environ)
    settings = resolve(arguments, os.environ, gateway_settings(), known=SETTINGS)
    serve(as_settings(settings.values), heartbeat=arguments.heartbeat, descriptor=arguments.socket)
    return 0
