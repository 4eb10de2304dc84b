"""Flags of `dragoman load-test`."""

from __future__ import annotations

import argparse
from pathlib import Path

from dragoman.commands.folders import configure_force
from dragoman.kernel.errors import UsageError


def configure_load_test(parser: argparse.ArgumentParser) -> None:
    """Declare the flags, without those of the server and of requests."""
    parser.add_argument(
        "--protocol",
        choices=("triton", "own", "libretranslate", "deepl"),
        default="triton",
        help="what the server speaks: triton by gRPC or HTTP; a gateway the others (default: "
        "triton)",
    )
    _configure_load(parser)
    _configure_windows(parser)
    _configure_objectives(parser)
    _configure_results(parser)


def _configure_load(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is sent")
    group.add_argument("--texts", type=Path, metavar="FILE", help="a text on each line; may be .gz")
    group.add_argument(
        "--concurrency",
        type=_whole_numbers,
        metavar="N,...",
        help="closed loops: so many clients, each waiting for its answers (default: 1,8,32)",
    )
    group.add_argument(
        "--rate",
        type=_numbers,
        metavar="R,...",
        help="open loops: so many sentences a second, whether or not they are answered",
    )
    group.add_argument(
        "--arrivals",
        choices=("poisson", "constant"),
        default="poisson",
        help="how those of --rate are spread (default: poisson)",
    )
    group.add_argument(
        "--arrivals-file",
        type=Path,
        metavar="FILE",
        help="an open loop at recorded times: seconds, one a line",
    )
    group.add_argument(
        "--batch-size", type=_whole_numbers, default=(1,), metavar="N,...", help="texts a request"
    )
    group.add_argument("--stream", action="store_true", help="by translate_stream, part by part")
    group.add_argument(
        "--arrivals-seed", type=int, default=0, help="of the order and the arrivals (default: 0)"
    )


def _configure_windows(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("for how long")
    group.add_argument("--warm-up-s", type=float, default=3.0, help="not counted (default: 3)")
    group.add_argument("--window-s", type=float, default=5.0, help="seconds a window (default: 5)")
    group.add_argument("--windows", type=int, default=5, help="windows that count (default: 5)")


def _configure_objectives(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is asked")
    group.add_argument(
        "--slo",
        action="append",
        default=[],
        metavar="OBJECTIVE",
        help="such as p99=300ms, first-p95=0.1s, errors=0.1%%, sentences=200/s; may be repeated; "
        "exit code 1 where one is missed",
    )
    group.add_argument(
        "--find-capacity",
        action="store_true",
        help="search the highest rate that holds every --slo",
    )
    group.add_argument(
        "--plan", metavar="R/s", help="how many such servers so many sentences a second take"
    )
    group.add_argument(
        "--price",
        type=float,
        metavar="PRICE",
        help="of such a server for an hour, so that --plan tells the cost of a million characters",
    )
    group.add_argument(
        "--metrics-url",
        metavar="URL",
        help="the server's own metrics (default: the port that the server names; 'none')",
    )


def _configure_results(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("results")
    group.add_argument("--json", type=Path, metavar="FILE", help="everything, for --compare")
    group.add_argument("--csv", type=Path, metavar="FILE", help="a line for each window")
    group.add_argument("--html", type=Path, metavar="FILE", help="a page with pictures")
    group.add_argument("--svg", type=Path, metavar="FILE", help="the page's picture alone")
    group.add_argument(
        "--values", type=Path, metavar="FILE", help="the --plan as values of the Helm chart"
    )
    configure_force(parser)
    group.add_argument(
        "--compare",
        nargs=2,
        type=Path,
        metavar=("BEFORE", "AFTER"),
        help="two files of --json side by side, instead of a test",
    )


def read_rate(text: str) -> float:
    """The number in `200/s`, of `--plan`.

    Raises:
        UsageError: it is something else.
    """
    try:
        (rate,) = _numbers(text.removesuffix("/s"))
    except (argparse.ArgumentTypeError, ValueError):
        raise UsageError(f"--plan {text}: write it like 200/s") from None
    return rate


def _whole_numbers(text: str) -> tuple[int, ...]:
    """Numbers of at least one, with commas between them."""
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or min(found) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: give numbers like 1,8,32")
    return found


def _numbers(text: str) -> tuple[float, ...]:
    """Positive numbers with commas between them."""
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or not all(0 < number < float("inf") for number in found):
        raise argparse.ArgumentTypeError(f"{text!r}: give rates like 50,100.5")
    return found
