"""Flags of all commands that ask a running server: where it is, and who asks."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.kernel.errors import UsageError

if TYPE_CHECKING:
    from dragoman_client import Translator

DEFAULT_URL = "grpc://localhost:8001"


def configure_server(parser: argparse.ArgumentParser, *other_names: str) -> None:
    """Declare where the server is, under `--url` and other names, and what it wants to see."""
    parser.add_argument(
        *("--url", *other_names),
        default=os.environ.get("DRAGOMAN_URL") or DEFAULT_URL,
        help="grpc://HOST:PORT of Triton, or http://HOST:PORT of a gateway or of Triton, with TLS "
        "grpcs:// or https://; HOST:8001 is gRPC and other ports without a scheme are HTTP "
        f"(default: $DRAGOMAN_URL or {DEFAULT_URL})",
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="holds the token that the server wants (default: $DRAGOMAN_TOKEN, or none)",
    )
    parser.add_argument(
        "--api-key-file",
        type=Path,
        metavar="FILE",
        help="holds the API key of a gateway (default: $DRAGOMAN_API_KEY, or none)",
    )
    parser.add_argument("--ca-file", metavar="FILE", help="who may vouch for the server, in PEM")
    parser.add_argument("--certificate-file", metavar="FILE", help="the client's own, in PEM")
    parser.add_argument("--key-file", metavar="FILE", help="its private key, in PEM")
    parser.add_argument(
        "--timeout-s", type=float, default=30.0, help="longest time for a request (default: 30)"
    )


def configure_retries(parser: argparse.ArgumentParser) -> None:
    """Declare how often the client tries again."""
    parser.add_argument(
        "--retries",
        type=int,
        help="how often a request is sent again that no server could take (default: 5)",
    )


def open_translator(arguments: argparse.Namespace, retries: int | None = None) -> Translator:
    """The client that `configure_server` declared.

    Raises:
        UsageError: the address or a file makes no sense.
    """
    from dragoman_client import Translator

    try:
        return Translator(**client_arguments(arguments, retries))
    except ValueError as error:
        raise UsageError(one_line(error)) from error


def client_arguments(arguments: argparse.Namespace, retries: int | None = None) -> dict[str, Any]:
    """The arguments of that client, by name.

    Raises:
        UsageError: a file of a secret cannot be read.
    """
    from dragoman_client.retrying import DEFAULT_RETRIES

    return {
        "url": arguments.url,
        "timeout_s": arguments.timeout_s,
        "token": read_secret(arguments),
        "ca_file": arguments.ca_file,
        "certificate_file": arguments.certificate_file,
        "key_file": arguments.key_file,
        "retries": DEFAULT_RETRIES if retries is None else retries,
    }


def read_secret(arguments: argparse.Namespace) -> str | None:
    """The API key of a gateway, or else the token, of a file or of the environment.

    Neither is an option itself: what stands on a command line, everyone on the machine can read.
    Both are sent as the same header, so that a file of one leaves out the environment's other.

    Raises:
        UsageError: a file cannot be read, or there are two.
    """
    if arguments.api_key_file and arguments.token_file:
        raise UsageError("--api-key-file, --token-file: give one; both are sent as the same header")
    if arguments.api_key_file:
        return _read_file(arguments.api_key_file, "--api-key-file")
    if arguments.token_file:
        return _read_file(arguments.token_file, "--token-file")
    names = ["DRAGOMAN_API_KEY", "DRAGOMAN_TOKEN"]
    if arguments.url.startswith("grpc"):
        names.remove("DRAGOMAN_API_KEY")  # gateways have no gRPC of ours
    return next((found for name in names if (found := os.environ.get(name))), None)


def _read_file(file: Path, flag: str) -> str:
    """A secret of a file.

    Raises:
        UsageError: the file cannot be read.
    """
    try:
        secret = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{flag} {file}: cannot be read: {error}") from error
    if not secret:
        raise UsageError(f"{flag} {file}: is empty")
    return secret


def one_line(error: Exception) -> str:
    """The message of an error of somebody else's, which may have several lines."""
    return " ".join(str(error).split())
