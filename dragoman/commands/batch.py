"""`dragoman batch`: translate corpora, each chunk exactly once."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import logging
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.commands.shared.asking import (
    client_arguments,
    configure_retries,
    configure_server,
    one_line,
)
from dragoman.commands.shared.folders import check_count
from dragoman.commands.shared.line_progress import line_progress
from dragoman.commands.shared.options import configure_options, flag, given_options
from dragoman.kernel.errors import DragomanError, UsageError
from dragoman.kernel.processors import usable_cores

if TYPE_CHECKING:
    from dragoman_serving.batch.chunk_work import ChunkWork, OwnEngine, RunningServer, WorkOrder
    from dragoman_serving.batch.chunks import Chunk
    from dragoman_serving.batch.corpus import Corpus, Shard
    from dragoman_serving.batch.estimate import Estimate
    from dragoman_serving.batch.storage import InputFile
    from dragoman_serving.batch.tally import Report, Tally

HELP = "translate corpora: folders of files, in shards; interrupted runs can be resumed"
EXTRA = "batch"

_FORMATS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".tsv": "tsv",
    ".parquet": "parquet",
}
"""Formats by file extension; other files are text."""
_SHARD = re.compile(r"(\d+)/(\d+)")
_LOG_S = 30.0
"""Seconds between two progress lines in a log."""

_log = logging.getLogger(__name__)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    _configure_files(parser)
    _configure_work(parser)
    _configure_places(parser)
    configure_options(parser)
    configure_server(parser)
    configure_retries(parser)


def _configure_files(parser: argparse.ArgumentParser) -> None:
    files = parser.add_argument_group("files")
    files.add_argument(
        "--input", nargs="+", required=True, metavar="FILE", help="files, or folders of files"
    )
    files.add_argument(
        "--output",
        required=True,
        metavar="FOLDER",
        help="folder with one output file for each input file; to resume, run the same command",
    )
    files.add_argument(
        "--format",
        choices=("text", "jsonl", "tsv", "parquet", "auto"),
        default="auto",
        help="format of all files; auto: by the extension of the first one (default: auto)",
    )
    files.add_argument(
        "--field",
        default="text",
        help="jsonl member or parquet column to translate (default: text)",
    )
    files.add_argument(
        "--column", type=int, default=1, help="tsv column to translate, from 1 (default: 1)"
    )


def _configure_work(parser: argparse.ArgumentParser) -> None:
    work = parser.add_argument_group("work")
    work.add_argument(
        "--shard", metavar="I/N", help="only every Nth chunk, starting at the Ith; I is 1 to N"
    )
    work.add_argument(
        "--chunk-rows", type=int, default=1000, help="maximum rows per chunk (default: 1000)"
    )
    work.add_argument("--batch-size", type=int, default=250, help="rows per request (default: 250)")
    work.add_argument("--concurrency", type=int, default=2, help="parallel chunks (default: 2)")
    work.add_argument(
        "--plan", action="store_true", help="estimate the remaining work and time from a sample"
    )
    work.add_argument(
        "--core-hour-price", type=float, metavar="PRICE", help="price of a core hour, for --plan"
    )
    work.add_argument("--json", action="store_true", help="print the plan or report as JSON")


def _configure_places(parser: argparse.ArgumentParser) -> None:
    engine = parser.add_argument_group("a local engine, instead of the server at --url")
    engine.add_argument(
        "--bundle", nargs="+", type=Path, default=[], metavar="FOLDER", help="bundles to load"
    )
    engine.add_argument(
        "--pivot", metavar="LANGUAGE", help="pivot language, for directions without a model"
    )
    engine.add_argument(
        "--workers", type=int, help="threads of the engine (default: one per core, at most 8)"
    )
    cluster = parser.add_argument_group("Ray actors, instead of this process")
    cluster.add_argument(
        "--ray", metavar="ADDRESS", help="address of a cluster, or `auto`; `local` starts one here"
    )
    cluster.add_argument(
        "--actors", type=int, help="maximum number (default: as many as the cluster has cores for)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Translate the missing chunks, and print a report."""
    from dragoman_client import InvalidRequest, TranslationError
    from dragoman_serving.batch.chunk_work import ChunkWork

    if arguments.ray is not None:
        arguments.extra = "batch-ray"
    _check(arguments)
    shard = _shard(arguments.shard)
    try:
        sources, order = _order(arguments)
        with contextlib.closing(ChunkWork(order)) as work:
            corpus = _corpus(arguments, sources, order, work)
            chunks = corpus.pending(shard)
            outcome: Estimate | Report
            if arguments.plan:
                outcome = _plan(arguments, chunks, work)
            else:
                with _way_of_work(arguments, order, work, chunks) as executor:
                    outcome = _translate(arguments, corpus, chunks, executor)
    except TranslationError as error:
        kind = UsageError if isinstance(error, InvalidRequest) else DragomanError
        where = arguments.url if not arguments.bundle else "the engine"
        raise kind(f"{where}: {one_line(error)}") from error
    except OSError as error:
        raise DragomanError(
            f"{error.filename or arguments.output}: {error.strerror or error}"
        ) from error
    print(json.dumps(outcome.as_json()) if arguments.json else outcome)
    return 0


def _check(arguments: argparse.Namespace) -> None:
    """Refuse invalid numbers, and an output folder inside the input."""
    for name in ("chunk_rows", "batch_size", "concurrency", "workers", "actors"):
        check_count(flag(name), getattr(arguments, name))
    if (price := arguments.core_hour_price) is not None:
        if not arguments.plan:
            raise UsageError("--core-hour-price: is for --plan")
        if price <= 0:
            raise UsageError(f"--core-hour-price {price:g}: give more than 0")
    if not arguments.bundle:
        for name in ("pivot", "workers"):
            if getattr(arguments, name) is not None:
                raise UsageError(f"{flag(name)}: is for a local engine; give --bundle")
    if arguments.actors is not None and arguments.ray is None:
        raise UsageError("--actors: is for Ray; give --ray")
    output = Path(arguments.output).resolve()
    for word in arguments.input:
        if Path(word).is_dir() and output.is_relative_to(Path(word).resolve()):
            raise UsageError(f"--output {arguments.output}: is in {word}, which is --input")


def _shard(given: str | None) -> Shard:
    """Parses the shard."""
    from dragoman_serving.batch.corpus import Shard

    if given is None:
        return Shard()
    match = _SHARD.fullmatch(given)
    if match is None or not 1 <= (number := int(match[1])) <= (of := int(match[2])):
        raise UsageError(f"--shard {given}: give I/N, such as 1/8 to 8/8")
    return Shard(number - 1, of)


def _order(arguments: argparse.Namespace) -> tuple[list[InputFile], WorkOrder]:
    """Returns the input files, and how to translate them."""
    from dragoman_client.core.settings import check_batch_options
    from dragoman_serving.batch.chunk_work import Format, WorkOrder
    from dragoman_serving.batch.storage import absolute, find_sources

    try:
        # The confidence costs next to nothing, and the report shows it.
        options = check_batch_options({"return_confidence": True, **given_options(arguments)})
        sources = find_sources(arguments.input)
        name = arguments.format
        if name == "auto":
            name = _FORMATS.get(Path(sources[0].name).suffix.lower(), "text")
        form = Format(name, arguments.field, arguments.column)
        form.open(options)  # reports errors early
    except ValueError as error:
        raise UsageError(one_line(error)) from error
    return sources, WorkOrder(
        absolute(arguments.output), form, _translating(arguments), options, arguments.batch_size
    )


def _translating(arguments: argparse.Namespace) -> OwnEngine | RunningServer:
    """Returns the engine or the server that translates."""
    from dragoman_serving.batch.chunk_work import OwnEngine, RunningServer
    from dragoman_serving.service.models_to_serve import ModelsToServe

    if not arguments.bundle:
        return RunningServer(client_arguments(arguments, arguments.retries))
    bundles = tuple(str(folder.absolute()) for folder in arguments.bundle)
    return OwnEngine(ModelsToServe(bundles, pivot=arguments.pivot), arguments.workers)


def _corpus(
    arguments: argparse.Namespace, sources: Sequence[InputFile], order: WorkOrder, work: ChunkWork
) -> Corpus:
    """Returns the job, new or resumed."""
    from dragoman_serving.batch.corpus import Corpus
    from dragoman_serving.batch.storage import open_storage

    bundles = [bundle["identity"] for bundle in work.translator.info().bundles]
    settings = {**dataclasses.asdict(order.form), "options": order.options, "bundles": bundles}
    form = order.form.open(order.options)
    return Corpus(sources, open_storage(order.output), form, arguments.chunk_rows, settings)


def _plan(arguments: argparse.Namespace, chunks: Sequence[Chunk], work: ChunkWork) -> Estimate:
    """Estimates the time and the price of the chunks."""
    from dragoman_serving.batch.estimate import estimate

    if not chunks:
        raise UsageError("--plan: nothing is left to translate")
    cores = usable_cores() if arguments.bundle else None
    return estimate(chunks, work, arguments.concurrency, cores, arguments.core_hour_price)


def _translate(
    arguments: argparse.Namespace, corpus: Corpus, chunks: Sequence[Chunk], executor: _Way
) -> Report:
    """Translate chunks, and join the outputs that are complete."""
    from dragoman_serving.batch.tally import Report, Tally

    begin_s = time.monotonic()
    left = sum(chunk.rows for chunk in chunks)
    earlier = corpus.rows - sum(chunk.rows for chunk in corpus.pending())
    done = Tally()
    with _progress(arguments.quiet, left) as show:
        for tally in executor.run(chunks):
            done.add(tally)
            show(done.rows)
    corpus.join()
    still = sum(chunk.rows for chunk in corpus.pending())
    cores = executor.cores if arguments.bundle else None
    return Report(done, earlier, still, time.monotonic() - begin_s, cores)


@dataclasses.dataclass(frozen=True)
class _Way:
    """A function that translates chunks, and the number of cores it uses."""

    run: Callable[[Sequence[Chunk]], Iterable[Tally]]
    cores: int


@contextlib.contextmanager
def _way_of_work(
    arguments: argparse.Namespace, order: WorkOrder, work: ChunkWork, chunks: Sequence[Chunk]
) -> Iterator[_Way]:
    """Run the chunks in this process or in Ray; without chunks, nothing is started."""
    if not chunks:
        yield _Way(lambda _: (), usable_cores())
        return
    if arguments.ray is None:
        from dragoman_serving.batch.local_run import run_here

        work.warm_up()
        run = partial(run_here, do=work.do, concurrency=arguments.concurrency)
        yield _Way(run, usable_cores())
        return
    from dragoman_serving.batch.ray_run import Cluster

    work.close()  # the engine was only needed for information about its bundles
    cores = arguments.workers or (usable_cores() if arguments.ray == "local" else 1)
    cluster = Cluster(arguments.ray, arguments.actors, cores)
    with cluster.connected():
        run = partial(cluster.run, order=order, concurrency=arguments.concurrency)
        yield _Way(run, cluster.all_cores)


@contextlib.contextmanager
def _progress(quiet: bool, rows: int) -> Iterator[Callable[[int], None]]:
    """Yields a function of the rows done, which shows a bar on a terminal or writes log lines."""
    begin_s = told_s = time.monotonic()

    def tell(done: int) -> None:
        nonlocal told_s
        now_s = time.monotonic()
        if quiet or now_s - told_s < _LOG_S:
            return
        told_s, rate = now_s, done / (now_s - begin_s)
        left_s = (rows - done) / rate
        _log.info("%d of %d rows, %.1f rows/s, %.0f s left", done, rows, rate, left_s)

    if sys.stderr.isatty():
        with line_progress(quiet, "row") as show:
            yield lambda done: show(done, 0, rows)
    else:
        yield tell
