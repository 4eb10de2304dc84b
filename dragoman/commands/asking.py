"""Options of all commands that ask a running server: where it is, who asks, how it translates."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.errors import UsageError

if TYPE_CHECKING:
    from dragoman_client.request import OptionArguments

DEFAULT_URL = "grpc://localhost:8001"


def configure_server(parser: argparse.ArgumentParser) -> None:
    """Declare where the server is and what it wants to see."""
    parser.add_argument(
        "--url",
        default=os.environ.get("DRAGOMAN_URL") or DEFAULT_URL,
        help="grpc://HOST:PORT or http://HOST:PORT, with TLS grpcs:// or https:// "
        f"(default: $DRAGOMAN_URL or {DEFAULT_URL})",
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="holds the token that the server wants (default: $DRAGOMAN_TOKEN, or none)",
    )
    parser.add_argument("--ca-file", metavar="FILE", help="who may vouch for the server, in PEM")
    parser.add_argument("--certificate-file", metavar="FILE", help="the client's own, in PEM")
    parser.add_argument("--key-file", metavar="FILE", help="its private key, in PEM")
    parser.add_argument(
        "--timeout-s", type=float, default=30.0, help="longest time for a request (default: 30)"
    )


def configure_translation(parser: argparse.ArgumentParser) -> None:
    """Declare how texts are translated."""
    parser.add_argument(
        "--from", dest="source_language", metavar="LANGUAGE", help="such as en, or auto"
    )
    parser.add_argument("--to", dest="target_language", metavar="LANGUAGE", help="such as de")
    parser.add_argument("--beam-width", type=int, help="1: greedy (default: the server's)")
    parser.add_argument("--max-tokens", type=int, help="most tokens to write for a text")
    parser.add_argument("--length-penalty", type=float, help="higher favours longer translations")
    parser.add_argument(
        "--split-sentences",
        action=argparse.BooleanOptionalAction,
        help="let the server cut a text into sentences",
    )
    parser.add_argument(
        "--max-sentence-tokens",
        type=int,
        metavar="N",
        help="with --split-sentences: cut longer sentences, best at the end of a clause",
    )


def configure_alternatives(parser: argparse.ArgumentParser) -> None:
    """Declare what `--json` and `--format jsonl` show of other translations."""
    parser.add_argument(
        "--alternatives",
        dest="num_return_sequences",
        type=int,
        metavar="N",
        help="translations of each text, at most the beam's width; shown in JSON",
    )
    parser.add_argument(
        "--scores", dest="return_scores", action="store_true", default=None, help="shown in JSON"
    )


def translation_options(arguments: argparse.Namespace) -> OptionArguments:
    """What `configure_translation` declared."""
    return {
        "source_language": arguments.source_language,
        "target_language": arguments.target_language,
        "max_tokens": arguments.max_tokens,
        "beam_width": arguments.beam_width,
        "length_penalty": arguments.length_penalty,
        "split_sentences": arguments.split_sentences,
        "num_return_sequences": getattr(arguments, "num_return_sequences", None),
        "return_scores": getattr(arguments, "return_scores", None),
        "max_sentence_tokens": arguments.max_sentence_tokens,
    }


def read_token(file: Path | None) -> str | None:
    """The token of a file, or of the environment.

    Not an option itself: what stands on a command line, everyone on the machine can read.

    Raises:
        UsageError: the file cannot be read.
    """
    if file is None:
        return os.environ.get("DRAGOMAN_TOKEN") or None
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--token-file {file}: cannot be read: {error}") from error
    if not token:
        raise UsageError(f"--token-file {file}: is empty")
    return token


def one_line(error: Exception) -> str:
    """The message of an error of somebody else's, which may have several lines."""
    return " ".join(str(error).split())
