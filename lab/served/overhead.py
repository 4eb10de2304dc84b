"""The overhead of serving: the same engine behind Triton, and in this process.

It uses the base size with random weights, 32 tokens in and out, and 32 concurrent sentences. Behind
Triton, the load generator and Triton use part of the same cores.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from dragoman_export.publishing import publish
from dragoman_options.arguments import OptionArguments
from dragoman_serving.translation.translator import Translator

from dragoman.kernel.errors import CheckFailed
from lab.load import GENERATOR, LoadPlan
from lab.measurement import Results, alternate, number, program, progress, ratios
from lab.peers.models.base_model import (
    SOURCE_TOKENS,
    TARGET_TOKENS,
    random_texts,
    write_random_bundle,
)
from lab.peers.served_endpoint import ENGINE, SERVER, Endpoint, serve
from lab.report import markdown_table, search_name, spread

AT_ONCE = 32
_TEXTS = 512
_WARM_UP_S = 1.0

Speed = tuple[float, str]
"""Sentences per second, and the CPU time by process."""


def run_in_process(
    translator: Translator, texts: Sequence[str], beam_width: int, seconds: float
) -> Speed:
    """Translate with a constant number in flight; each finished one is replaced.

    Raises:
        CheckFailed: none was finished.
    """
    options = OptionArguments(beam_width=beam_width, max_tokens=TARGET_TOKENS)
    capacity, ends = threading.Semaphore(AT_ONCE), []

    def count(_: object) -> None:
        ends.append(time.perf_counter())
        capacity.release()

    begin = time.perf_counter() + _WARM_UP_S
    for text in itertools.cycle(texts):
        capacity.acquire()
        if time.perf_counter() > begin + seconds:
            break
        translator.submit([text], options).future.add_done_callback(count)
    translated = sum(begin <= end < begin + seconds for end in ends)
    if not translated:
        raise CheckFailed(f"no sentence was translated within {seconds:g} s: give more --seconds")
    return translated / seconds, ""


def run_served(endpoint: Endpoint, texts: Sequence[str], beam_width: int, seconds: float) -> Speed:
    """Translate with this many clients.

    Raises:
        CheckFailed: a request failed.
    """
    plan = LoadPlan(AT_ONCE, _WARM_UP_S, seconds)
    result = endpoint.load(texts, beam_width, plan, more={"max_tokens": TARGET_TOKENS})
    for error in result.errors:
        raise CheckFailed(error)
    shares = {name: result.cpu_s[name] / result.elapsed_s for name in (SERVER, ENGINE, GENERATOR)}
    return result.sentences_per_s, ", ".join(f"{name} {s:.0%}" for name, s in shares.items())


@program(number("--rounds", 3), number("--seconds", 6, "of each run"))
def main(arguments: argparse.Namespace) -> Results:
    """Print the table."""
    rows, results = [], []
    with tempfile.TemporaryDirectory() as scratch, progress(4 * arguments.rounds) as advance:
        bundle = write_random_bundle(Path(scratch))
        publish(bundle, Path(scratch) / "repository")
        texts = random_texts(_TEXTS)
        with serve(Path(scratch) / "repository") as endpoint:
            translator = Translator(bundle)
            for width in (1, 4):
                load = (texts, width, arguments.seconds)
                runs = {
                    "in process": partial(run_in_process, translator, *load),
                    "served": partial(run_served, endpoint, *load),
                }
                name = search_name(width)
                taken = alternate(runs, arguments.rounds, advance=partial(advance, name))
                alone, served = ([speed for speed, _ in taken[run]] for run in runs)
                of_alone = ratios(served, alone)
                speeds = (f"{statistics.median(values):.1f}" for values in (alone, served))
                rows.append([name, *speeds, spread(of_alone), taken["served"][-1][1]])
                results.append({"beam_width": width, "in_process": alone, "served": served})
            translator.close()
    print(f"{SOURCE_TOKENS} tokens in, {TARGET_TOKENS} out, {AT_ONCE} at once; sentences/s\n")
    head = ["search", "in process", "served", "served over in process", "processor time, of a core"]
    print(markdown_table(head, rows))
    return {"results": results}


if __name__ == "__main__":
    sys.exit(main())
