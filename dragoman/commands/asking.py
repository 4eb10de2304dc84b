"""Options of all commands that ask a running server: where it is, who asks, how it translates."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from dragoman.kernel.errors import UsageError

if TYPE_CHECKING:
    from dragoman_client import Translator
    from dragoman_client.options import OptionArguments

DEFAULT_URL = "grpc://localhost:8001"
_SIDES = 2
_SEARCH_NUMBERS = (
    ("min_tokens", int, "fewest tokens of a translation"),
    ("max_length_ratio", float, "most tokens for each of the text"),
    ("min_length_ratio", float, "fewest of those"),
    ("patience", float, "a beam ends when so many times its width have finished"),
    ("coverage_penalty", float, "what leaves words of the text out loses by this"),
    ("repetition_penalty", float, "above 1: tokens that were said become less likely"),
    ("no_repeat_ngram_size", int, "no run of so many tokens comes twice"),
    ("temperature", float, "sample tokens: above 1 more evenly, below 1 more from the best"),
    ("top_k", int, "draw from so many of the best"),
    ("top_p", float, "draw from the best with this much probability together"),
    ("sampling_seed", int, "draw as another time with this seed"),
)


def configure_server(parser: argparse.ArgumentParser, *other_names: str) -> None:
    """Declare where the server is, under `--url` and other names, and what it wants to see."""
    parser.add_argument(
        *("--url", *other_names),
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


def open_translator(arguments: argparse.Namespace, retries: int | None = None) -> Translator:
    """The client that `configure_server` declared.

    Raises:
        UsageError: the address or a file makes no sense.
    """
    from dragoman_client import Translator
    from dragoman_client.retrying import DEFAULT_RETRIES

    try:
        return Translator(
            arguments.url,
            timeout_s=arguments.timeout_s,
            token=read_token(arguments.token_file),
            ca_file=arguments.ca_file,
            certificate_file=arguments.certificate_file,
            key_file=arguments.key_file,
            retries=DEFAULT_RETRIES if retries is None else retries,
        )
    except ValueError as error:
        raise UsageError(one_line(error)) from error


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
    parser.add_argument(
        "--token-scores",
        dest="return_token_scores",
        action="store_true",
        default=None,
        help="log-probabilities of the translations' tokens, shown in JSON",
    )
    parser.add_argument(
        "--alignments",
        dest="return_alignments",
        choices=("hard", "soft"),
        help="links between words, or the weights behind them, shown in JSON",
    )
    parser.add_argument(
        "--confidence",
        dest="return_confidence",
        action="store_true",
        default=None,
        help="log-probability of a token on average, shown in JSON",
    )


def configure_search(parser: argparse.ArgumentParser) -> None:
    """Declare how translations are searched for; docs/options.md has it at length."""
    group = parser.add_argument_group("search", "see docs/options.md")
    for name, kind, meaning in _SEARCH_NUMBERS:
        option = f"--{name.replace('_', '-')}"
        group.add_argument(option, type=kind, metavar=kind.__name__.upper(), help=meaning)
    group.add_argument("--prefix", metavar="TEXT", help="how each translation begins")
    group.add_argument(
        "--no-early-stopping",
        dest="early_stopping",
        action="store_false",
        default=None,
        help="search on until nothing better can come",
    )
    group.add_argument(
        "--suppress", action="append", metavar="WORD", help="in no translation; may be repeated"
    )
    group.add_argument(
        "--glossary",
        type=Path,
        metavar="FILE",
        help="lines of a source term, a tab, and what translations shall hold for it",
    )
    group.add_argument(
        "--keep-placeholders",
        action="store_true",
        default=None,
        help="names in braces, tags, addresses and numbers stay as they are",
    )
    group.add_argument(
        "--return-alternatives",
        action="store_true",
        default=None,
        help="the N of --alternatives differ in the token behind the prefix",
    )


def read_glossary(file: Path) -> dict[str, str]:
    """Source and target terms of a file, a pair a line, with a tab between them.

    Raises:
        UsageError: the file cannot be read, or a line has not two terms, by number.
    """
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--glossary {file}: cannot be read: {error}") from error
    terms: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        pair = line.split("\t")
        if len(pair) != _SIDES or not all(term.strip() for term in pair):
            raise UsageError(f"--glossary {file}: line {number} is not TERM, tab, TERM")
        terms[pair[0].strip()] = pair[1].strip()
    return terms


def translation_options(arguments: argparse.Namespace) -> OptionArguments:
    """What `configure_translation` and the others have declared, as far as they have."""
    from dragoman_client.options import OptionArguments

    found: dict[str, Any] = {
        name: getattr(arguments, name, None) for name in OptionArguments.__annotations__
    }
    # A load test has a seed of its own.
    found["seed"] = getattr(arguments, "sampling_seed", None)
    if (glossary := found["glossary"]) is not None:
        found["glossary"] = read_glossary(glossary)
    return cast(OptionArguments, found)


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
