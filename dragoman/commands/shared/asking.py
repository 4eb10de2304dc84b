"""Flags of all commands that use a running server: its address, credentials and timeout."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.kernel.errors import DragomanError, InvalidRequest, UsageError

if TYPE_CHECKING:
    from dragoman_client import TranslationError, Translator
    from dragoman_documents.memory.memory_store import Memory

DEFAULT_URL = "grpc://localhost:8001"


def configure_server(parser: argparse.ArgumentParser, *other_names: str) -> None:
    """Declare the server's address, as `--url` and other names, and the client's credentials."""
    parser.add_argument(
        "--url",
        *other_names,
        default=os.environ.get("DRAGOMAN_URL") or DEFAULT_URL,
        help="server: grpc://HOST:PORT of Triton, or http://HOST:PORT of a gateway or Triton; "
        "grpcs:// or https:// with TLS; without a scheme, port 8001 is gRPC, others are HTTP "
        f"(default: $DRAGOMAN_URL or {DEFAULT_URL})",
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="file with the server's access token (default: $DRAGOMAN_TOKEN, or none)",
    )
    parser.add_argument(
        "--api-key-file",
        type=Path,
        metavar="FILE",
        help="file with the API key of a gateway (default: $DRAGOMAN_API_KEY, or none)",
    )
    parser.add_argument("--ca-file", metavar="FILE", help="CA certificates to trust, in PEM")
    parser.add_argument("--certificate-file", metavar="FILE", help="client certificate, in PEM")
    parser.add_argument("--key-file", metavar="FILE", help="private key of the client, in PEM")
    parser.add_argument(
        "--timeout-s", type=float, default=30.0, help="timeout of a request (default: 30)"
    )


def configure_retries(parser: argparse.ArgumentParser) -> None:
    """Declare the number of retries."""
    parser.add_argument(
        "--retries",
        type=int,
        help="retries of a request that fails because no server is available (default: 5)",
    )


def server_error(
    url: str, error: TranslationError, after: str = "", more: str = ""
) -> DragomanError:
    """Returns a command's error for a request that failed.

    Args:
        url: address of the server.
        error: the client's error.
        after: what was done before it, for the message.
        more: end of the message, such as how to continue.
    """
    import dragoman_client

    message = one_line(error)
    unavailable = isinstance(error, dragoman_client.ServerUnavailable)
    if unavailable and message.endswith("Connection refused"):
        fix = "start one with `dragoman serve`, or give another --url"
        return DragomanError(f"no Dragoman server at {url}{after}: {fix}{more}")
    message = f"{url}{after}: {message}{more}"
    if isinstance(error, dragoman_client.InvalidRequest):
        return InvalidRequest(message, error.kind, error.option, error.text_index)
    return DragomanError(message)


def open_translator(
    arguments: argparse.Namespace, retries: int | None = None, memory: Memory | None = None
) -> Translator:
    """Returns a client for the server of `configure_server`.

    Args:
        arguments: of the command line.
        retries: see `client_arguments`.
        memory: a translation memory that it uses.

    Raises:
        UsageError: the address or a file is not valid.
    """
    from dragoman_client import Translator

    try:
        if memory is not None:
            from dragoman_client.memory_translator import MemoryTranslator

            return MemoryTranslator(memory, **client_arguments(arguments, retries))
        return Translator(**client_arguments(arguments, retries))
    except ValueError as error:
        raise UsageError(one_line(error)) from error


def client_arguments(arguments: argparse.Namespace, retries: int | None = None) -> dict[str, Any]:
    """Returns the arguments of that client, by name.

    Raises:
        UsageError: a file with a secret cannot be read.
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
    """Returns the gateway's API key, or else the token, from a file or the environment.

    Neither is a flag itself, because every user of a machine can read its command lines. Both are
    sent as the same header, so a file with one of them overrides the environment's other.

    Raises:
        UsageError: a file cannot be read, or two files were given.
    """
    if arguments.api_key_file and arguments.token_file:
        raise UsageError("--api-key-file, --token-file: give one; both are sent as the same header")
    if arguments.api_key_file:
        return _read_file(arguments.api_key_file, "--api-key-file")
    if arguments.token_file:
        return _read_file(arguments.token_file, "--token-file")
    names = ["DRAGOMAN_API_KEY", "DRAGOMAN_TOKEN"]
    if arguments.url.startswith("grpc"):
        names.remove("DRAGOMAN_API_KEY")  # gateways do not serve our gRPC protocol
    return next((secret for name in names if (secret := os.environ.get(name))), None)


def _read_file(file: Path, flag: str) -> str:
    """Reads a secret from a file."""
    try:
        secret = file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise UsageError(f"{flag} {file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{flag} {file}: cannot be read: {error}") from error
    if not secret:
        raise UsageError(f"{flag} {file}: is empty")
    return secret


def one_line(error: Exception) -> str:
    """The message of another library's error, which may have several lines, as one line."""
    return " ".join(str(error).split())
