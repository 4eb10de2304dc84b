"""The in-process engine with different numbers of workers and threads.

Run from the project's folder on an otherwise idle machine:

    python -m lab.engine.sessions --data-dir CORPORA
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from dragoman_options.arguments import OptionArguments
from dragoman_serving.engine.settings import EngineSettings
from dragoman_serving.translation.translator import Translator
from dragoman_training.text.parallel_text import read_lines

from dragoman.kernel.processors import usable_processors
from lab.report import markdown_table, search_name

BUNDLE = Path("model_repository/translate/1/bundle")
TEST = "tatoeba-en-de/test"
CASES = [(width, batch_size) for width in (1, 4) for batch_size in (1, 32)]


def measure(translator: Translator, texts: list[str], beam_width: int, batch_size: int) -> str:
    """Sentences per second, and CPU milliseconds for each sentence."""
    options = OptionArguments(beam_width=beam_width)
    begin, cpu_begin = time.perf_counter(), time.process_time()
    for start in range(0, len(texts), batch_size):
        translator.translate(texts[start : start + batch_size], options)
    per_s = len(texts) / (time.perf_counter() - begin)
    cpu_ms = 1000 * (time.process_time() - cpu_begin) / len(texts)
    return f"{per_s:.1f} ({cpu_ms:.1f})"


def main() -> None:
    """Print a table, one line for each layout."""
    parser = argparse.ArgumentParser(prog="python -m lab.engine.sessions", description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True, help=f"folder with {TEST}")
    parser.add_argument("--bundle", type=Path, default=BUNDLE, help=f"default: {BUNDLE}")
    parser.add_argument("--sentences", type=int, default=256, help="default: 256")
    arguments = parser.parse_args()
    texts = read_lines(arguments.data_dir / TEST, "en")[: arguments.sentences]
    cores = len(usable_processors())
    rows = []
    for workers, lone_threads in dict.fromkeys(((cores, 1), (cores, cores), (1, cores), (1, 1))):
        settings = EngineSettings(workers=workers, lone_threads=lone_threads)
        translator = Translator(arguments.bundle, settings)
        translator.translate(texts[:32])
        figures = [measure(translator, texts, *case) for case in CASES]
        translator.close()
        rows.append((f"{workers}, {lone_threads}", *figures))
    names = [f"{search_name(width)}, batch {batch_size}" for width, batch_size in CASES]
    print(markdown_table(["workers, lone threads", *names], rows))


if __name__ == "__main__":
    main()
