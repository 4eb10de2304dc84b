"""Flags of `dragoman load-test`."""

from __future__ import annotations

import argparse
from pathlib import Path

from dragoman.commands.shared.folders import configure_force
from dragoman.kernel.errors import UsageError


def configure_load_test(parser: argparse.ArgumentParser) -> None:
    """Declare the flags, except those of the server and of translation options."""
    parser.add_argument(
        "--protocol",
        choices=("triton", "own", "libretranslate", "deepl"),
        default="triton",
        help="API to use: triton over gRPC or HTTP; the others are a gateway's (default: triton)",
    )
    _configure_load(parser)
    _configure_windows(parser)
    _configure_objectives(parser)
    _configure_results(parser)


def _configure_load(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("load")
    group.add_argument("--texts", type=Path, metavar="FILE", help="one text per line; may be .gz")
    group.add_argument(
        "--concurrency",
        type=_whole_numbers,
        metavar="N,...",
        help="closed loop: number of clients, which wait for their answers (default: 1,8,32)",
    )
    group.add_argument(
        "--rate",
        type=_numbers,
        metavar="R,...",
        help="open loop: sentences per second, sent without waiting for answers",
    )
    group.add_argument(
        "--arrivals",
        choices=("poisson", "constant"),
        default="poisson",
        help="distribution of the arrivals with --rate (default: poisson)",
    )
    group.add_argument(
        "--arrivals-file",
        type=Path,
        metavar="FILE",
        help="open loop at recorded times: seconds, one per line",
    )
    group.add_argument(
        "--batch-size", type=_whole_numbers, default=(1,), metavar="N,...", help="texts per request"
    )
    group.add_argument("--stream", action="store_true", help="stream answers, by translate_stream")
    group.add_argument(
        "--arrivals-seed", type=int, default=0, help="seed of order and arrivals (default: 0)"
    )


def _configure_windows(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("duration")
    group.add_argument(
        "--warm-up-s", type=float, default=3.0, help="warm-up, which is not counted (default: 3)"
    )
    group.add_argument(
        "--window-s", type=float, default=5.0, help="seconds per window (default: 5)"
    )
    group.add_argument("--windows", type=int, default=5, help="counted windows (default: 5)")


def _configure_objectives(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("objectives")
    group.add_argument(
        "--slo",
        action="append",
        default=[],
        metavar="OBJECTIVE",
        help="such as p99=300ms, first-p95=0.1s, errors=0.1%%, sentences=200/s; may be repeated; "
        "exit code 1 if one is missed",
    )
    group.add_argument(
        "--find-capacity",
        action="store_true",
        help="find the highest rate that meets every --slo",
    )
    group.add_argument(
        "--plan", metavar="R/s", help="print how many servers this many sentences/s take"
    )
    group.add_argument(
        "--price",
        type=float,
        metavar="PRICE",
        help="price of a server hour; --plan then prints the price of a million characters",
    )
    group.add_argument(
        "--metrics-url",
        metavar="URL",
        help="the server's metrics, or 'none' (default: on the port that the server reports)",
    )


def _configure_results(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("results")
    group.add_argument("--json", type=Path, metavar="FILE", help="all results, for --compare")
    group.add_argument("--csv", type=Path, metavar="FILE", help="one line per window")
    group.add_argument("--html", type=Path, metavar="FILE", help="a web page with a chart")
    group.add_argument("--svg", type=Path, metavar="FILE", help="the chart alone")
    group.add_argument(
        "--values", type=Path, metavar="FILE", help="values for the Helm chart, from --plan"
    )
    configure_force(parser)
    group.add_argument(
        "--compare",
        nargs=2,
        type=Path,
        metavar=("BEFORE", "AFTER"),
        help="compare two --json files, instead of running a test",
    )


def read_rate(text: str) -> float:
    """Parses the rate of `--plan`, such as `200/s`.

    Raises:
        UsageError: the text is not a rate.
    """
    try:
        (rate,) = _numbers(text.removesuffix("/s"))
    except (argparse.ArgumentTypeError, ValueError):
        raise UsageError(f"--plan {text}: give a rate such as 200/s") from None
    return rate


def _whole_numbers(text: str) -> tuple[int, ...]:
    """Parses numbers of at least 1, separated by commas."""
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: give numbers like 1,8,32")
    return numbers


def _numbers(text: str) -> tuple[float, ...]:
    """Parses positive numbers, separated by commas."""
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or not all(0 < number < float("inf") for number in numbers):
        raise argparse.ArgumentTypeError(f"{text!r}: give rates like 50,100.5")
    return numbers
