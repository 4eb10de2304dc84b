"""The overhead of serving: the same engine behind Triton, and in this process.

Run from the project's folder on an otherwise idle machine:

    python -m lab.served.overhead

It uses the base size with random weights, 32 tokens in and out, and 32 concurrent sentences. Behind
Triton, the load generator and Triton use part of the same cores.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from dragoman_export.publishing import publish
from dragoman_options.arguments import OptionArguments
from dragoman_serving.translation.translator import Translator

from dragoman.kernel.errors import CheckFailed
from lab.console import positive, progress
from lab.load import GENERATOR, LoadPlan
from lab.peers.base_model import (
    SOURCE_TOKENS,
    TARGET_TOKENS,
    random_texts,
    write_random_bundle,
)
from lab.peers.served_endpoint import ENGINE, SERVER, Endpoint, serve
from lab.report import markdown_table

AT_ONCE = 32
_TEXTS = 512
_WARM_UP_S = 1.0


def run_in_process(
    translator: Translator, texts: Sequence[str], beam_width: int, seconds: float
) -> float:
    """Sentences per second at a constant number in flight; each finished one is replaced."""
    options = OptionArguments(beam_width=beam_width, max_tokens=TARGET_TOKENS)
    room, ends = threading.Semaphore(AT_ONCE), []

    def count(_: object) -> None:
        ends.append(time.perf_counter())
        room.release()

    begin = time.perf_counter() + _WARM_UP_S
    for text in itertools.cycle(texts):
        room.acquire()
        if time.perf_counter() > begin + seconds:
            break
        translator.submit([text], options).future.add_done_callback(count)
    return sum(begin <= end < begin + seconds for end in ends) / seconds


def run_served(
    endpoint: Endpoint, texts: Sequence[str], beam_width: int, seconds: float
) -> tuple[float, str]:
    """Sentences per second with this many clients, and the CPU time by process.

    Raises:
        CheckFailed: a request failed.
    """
    plan = LoadPlan(AT_ONCE, _WARM_UP_S, seconds)
    found = endpoint.load(texts, beam_width, plan, more={"max_tokens": TARGET_TOKENS})
    for error in found.errors:
        raise CheckFailed(error)
    shares = {name: found.cpu_s[name] / found.elapsed_s for name in (SERVER, ENGINE, GENERATOR)}
    return found.sentences_per_s, ", ".join(f"{name} {s:.0%}" for name, s in shares.items())


def compare(rounds: int, seconds: float) -> list[list[str]]:
    """A row of the table for each search."""
    lines = []
    with tempfile.TemporaryDirectory() as scratch, progress(2 * rounds) as advance:
        bundle = write_random_bundle(Path(scratch))
        publish(bundle, Path(scratch) / "repository")
        texts = random_texts(_TEXTS)
        with serve(Path(scratch) / "repository") as endpoint:
            translator = Translator(bundle)
            for width in (1, 4):
                alone, served, shares = [], [], ""
                for _ in range(rounds):
                    alone.append(run_in_process(translator, texts, width, seconds))
                    speed, shares = run_served(endpoint, texts, width, seconds)
                    served.append(speed)
                    advance(f"beam {width}")
                ratios = [one / other for one, other in zip(served, alone, strict=True)]
                lines.append(
                    [
                        "greedy" if width == 1 else f"beam {width}",
                        f"{statistics.median(alone):.1f}",
                        f"{statistics.median(served):.1f}",
                        f"{statistics.median(ratios):.0%} ({min(ratios):.0%}..{max(ratios):.0%})",
                        shares,
                    ]
                )
            translator.close()
    return lines


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m lab.served.overhead")
    parser.add_argument("--rounds", type=positive, default=3, help="default: 3")
    parser.add_argument("--seconds", type=positive, default=6, help="of each run (default: 6)")
    arguments = parser.parse_args()
    print(f"{SOURCE_TOKENS} tokens in, {TARGET_TOKENS} out, {AT_ONCE} at once; sentences/s\n")
    head = ["search", "in process", "served", "served over in process", "processor time, of a core"]
    print(markdown_table(head, compare(arguments.rounds, arguments.seconds)))


if __name__ == "__main__":
    main()
