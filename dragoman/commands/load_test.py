"""`dragoman load-test`: measure the throughput, latency and capacity of a running server."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.commands.demo import SENTENCES
from dragoman.commands.shared.asking import (
    configure_server,
    one_line,
    open_translator,
    read_secret,
    server_error,
)
from dragoman.commands.shared.load_test_flags import configure_load_test, read_rate
from dragoman.commands.shared.options import configure_options, flag, given_options
from dragoman.kernel.errors import CheckFailed, DragomanError, UsageError
from dragoman.kernel.replacement import check_file

if TYPE_CHECKING:
    from dragoman_load_test.load_test import LoadTest, Watcher
    from dragoman_load_test.loops import Load
    from dragoman_load_test.measurement import Progress
    from dragoman_load_test.objectives import Objective
    from dragoman_load_test.requests.target import Target
    from dragoman_load_test.results import Point, Run

HELP = "measure throughput, latency and capacity of a running server"
EXTRA = "load-test"

_log = logging.getLogger(__name__)
_DEFAULT_CONCURRENCY = (1, 8, 32)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    configure_server(parser)
    configure_options(parser)
    configure_load_test(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run a test, or compare two results."""
    if _has_pictures(arguments):
        arguments.extra = "load-test,figures"
    return _compare(arguments) if arguments.compare else _test(arguments)


def _test(arguments: argparse.Namespace) -> int:
    from dragoman_client import TranslationError
    from dragoman_load_test.objectives import Objective
    from dragoman_load_test.reports.table import HEAD, conclusion_lines

    points: list[Point] = []
    try:
        objectives = [Objective.parse(text) for text in arguments.slo]
        _check_question(arguments, objectives)
        loads = list(_loads(arguments))
        test = _load_test(arguments, points)
    except ValueError as error:
        raise UsageError(one_line(error)) from error
    _check_outputs(arguments)

    async def run() -> Run:
        try:
            await test.ask_once()
        except TranslationError as error:
            raise server_error(arguments.url, error) from error
        print(HEAD, flush=True)
        if not arguments.find_capacity:
            return await test.sweep(loads, objectives)
        capacity_run = await test.find_capacity(
            objectives, arguments.batch_size[0], arguments.arrivals
        )
        return capacity_run if arguments.plan is None else _planned(arguments, capacity_run)

    try:
        measured = asyncio.run(run())
    except KeyboardInterrupt:
        if points:
            _keep(arguments, test.run_of(points, ()))
        raise
    for line in conclusion_lines(measured):
        print(line)
    _keep(arguments, measured)
    return _verdict(arguments, measured)


def _verdict(arguments: argparse.Namespace, measured: Run) -> int:
    """Returns the exit code 0."""
    if measured.capacity is not None and not measured.capacity.sentences_per_s:
        raise CheckFailed(f"no rate met {', '.join(arguments.slo)}")
    if missed := [judgement for judgement in measured.judgements if not judgement.met]:
        raise CheckFailed(f"{len(missed)} of {len(measured.judgements)} objectives were missed")
    if silent := measured.unanswered:
        raise CheckFailed(f"no request was answered under {', '.join(silent)}")
    return 0


def _check_question(arguments: argparse.Namespace, objectives: Sequence[Objective]) -> None:
    """Refuse arguments that do not fit together, before anything is measured."""
    if not arguments.stream and any(objective.measure == "first part" for objective in objectives):
        raise UsageError("--slo first-p...: add --stream; only streams have parts")
    if arguments.plan is not None:
        read_rate(arguments.plan)
        if not arguments.find_capacity:
            raise UsageError("--plan: add --find-capacity, which measures one server")
    elif arguments.price is not None or arguments.values is not None:
        raise UsageError("--price and --values: only with --plan R/s")
    if arguments.price is not None and not 0 < arguments.price < float("inf"):
        raise UsageError(f"--price {arguments.price:g}: give more than 0")
    if not arguments.find_capacity:
        return
    if not any(objective.measure != "sentences" for objective in objectives):
        raise UsageError("--find-capacity: give an objective, such as --slo p99=300ms")
    if any(objective.measure == "sentences" for objective in objectives):
        raise UsageError("--find-capacity: finds the sentences/s itself; give other objectives")
    for name in ("concurrency", "rate", "arrivals_file"):
        if getattr(arguments, name) is not None:
            raise UsageError(f"--find-capacity: chooses the loads itself; leave out {flag(name)}")
    if len(arguments.batch_size) > 1:
        raise UsageError("--find-capacity: give one --batch-size")


def _planned(arguments: argparse.Namespace, run: Run) -> Run:
    """The run, with a plan that follows from its capacity."""
    from dragoman_load_test.capacity import plan_for

    assert run.capacity is not None
    plan = plan_for(
        wanted_per_s=read_rate(arguments.plan),
        capacity_per_s=run.capacity.sentences_per_s,
        characters=run.texts.characters_mean,
        price_per_hour=arguments.price,
    )
    return replace(run, capacity=replace(run.capacity, plan=plan))


def _load_test(arguments: argparse.Namespace, points: list[Point]) -> LoadTest:
    """Returns the test; its points are appended to `points` as they are measured."""
    from dragoman_client.core.access import Access
    from dragoman_load_test.load_test import LoadTest
    from dragoman_load_test.measurement import Schedule
    from dragoman_load_test.requests.target import Target
    from dragoman_options.table import SAMPLING

    for name in ("warm_up_s", "window_s", "timeout_s"):
        value = getattr(arguments, name)
        if not 0 < value < float("inf"):
            raise UsageError(f"{flag(name)} {value:g}: give more than 0")
    if arguments.windows < 1:
        raise UsageError(f"--windows {arguments.windows}: give at least 1")
    access = Access(
        token=read_secret(arguments),
        ca_file=arguments.ca_file,
        certificate_file=arguments.certificate_file,
        key_file=arguments.key_file,
    )
    if arguments.url.startswith(("https", "grpcs")):
        access.tls_context()  # reports errors in the files early
    target = Target.of(
        arguments.url,
        options=given_options(arguments),
        access=access,
        streamed=arguments.stream,
        timeout_s=arguments.timeout_s,
        api=arguments.protocol,
    )
    if set(SAMPLING) & target.options.keys() == {"seed"}:
        _log.warning("--seed is for sampled translations; for the arrivals use --arrivals-seed")
    name, texts = _texts(arguments)
    schedule = Schedule(
        arguments.warm_up_s,
        arguments.window_s,
        arguments.windows,
        2 * arguments.windows,
        arguments.arrivals_seed,
    )
    command = shlex.join(["dragoman", *sys.argv[1:]])
    metrics_url = _metrics_url(arguments, target)
    return LoadTest(
        target, texts, name, schedule, metrics_url, command, _watcher(arguments.quiet, points)
    )


def _watcher(quiet: bool, points: list[Point]) -> Watcher:
    from dragoman_load_test.load_test import Watcher
    from dragoman_load_test.reports.table import point_lines, trial_line, window_line

    def show_point(point: Point) -> None:
        points.append(point)
        print("\n".join(point_lines(point)), flush=True)

    def show_window(progress: Progress) -> None:
        if not quiet:
            print(window_line(progress), file=sys.stderr, flush=True)

    return Watcher(show_window, show_point, lambda trial: print(trial_line(trial), flush=True))


def _loads(arguments: argparse.Namespace) -> Iterator[tuple[Load, int]]:
    """Yields the loads of the command line, each with its batch size."""
    from dragoman_load_test.arrivals import read_record
    from dragoman_load_test.loops import ClosedLoop, OpenLoop

    if arguments.stream and tuple(arguments.batch_size) != (1,):
        raise UsageError("--batch-size: a stream has one text")
    record = None if arguments.arrivals_file is None else read_record(arguments.arrivals_file)
    concurrency = arguments.concurrency
    if concurrency is None and arguments.rate is None and record is None:
        concurrency = _DEFAULT_CONCURRENCY
    for batch_size in arguments.batch_size:
        if record is not None:
            yield OpenLoop.recorded(record, batch_size), batch_size
        for rate in arguments.rate or ():
            yield OpenLoop(rate, arguments.arrivals), batch_size
        for clients in concurrency or ():
            yield ClosedLoop(clients), batch_size


def _texts(arguments: argparse.Namespace) -> tuple[str, list[str]]:
    """Returns the name of the texts, and the texts."""
    from dragoman_load_test.texts import read_texts
    from dragoman_options.languages import fold_language

    if arguments.texts is not None:
        return arguments.texts.name, read_texts(arguments.texts)
    given = arguments.source_language or "en"
    if (language := fold_language(given, list(SENTENCES))) is None:
        raise UsageError(f"--texts: give a file with texts, for --source-language {given}")
    return f"the built-in sentences ({language})", list(SENTENCES[language])


def _metrics_url(arguments: argparse.Namespace, target: Target) -> str | None:
    """The URL of the server's metrics. Behind a proxy they are not reachable, so it is None."""
    from dragoman_client import TranslationError

    if arguments.metrics_url is not None:
        return None if arguments.metrics_url == "none" else str(arguments.metrics_url)
    if target.address.tls or target.api != "triton":
        return None
    try:
        with open_translator(arguments, retries=0) as translator:
            port = translator.info().metrics_port
    except TranslationError:
        return None  # the next step tests whether the server answers at all
    host = target.address.authority.rpartition(":")[0]
    return None if port is None else f"http://{host}:{port}/metrics"


def _compare(arguments: argparse.Namespace) -> int:
    from dragoman_load_test.reports.comparison import Comparison
    from dragoman_load_test.reports.table import comparison_lines
    from dragoman_load_test.results import Run

    if arguments.json or arguments.csv:
        raise UsageError("--compare writes --html and --svg only")
    _check_outputs(arguments)
    before, after = arguments.compare
    names = (before.stem, after.stem) if before.stem != after.stem else (str(before), str(after))
    try:
        comparison = Comparison(names, Run.read(before), Run.read(after))
    except ValueError as error:
        raise UsageError(one_line(error)) from error
    if not comparison.pairs:
        raise UsageError(f"{before} and {after} have no load in common")
    for line in comparison_lines(comparison):
        print(line)
    if _has_pictures(arguments):
        from dragoman_load_test.reports.pages import comparison_page
        from dragoman_load_test.reports.plots import draw_comparison

        _write(
            {
                arguments.html: lambda: comparison_page(comparison),
                arguments.svg: lambda: draw_comparison(comparison),
            }
        )
    return 0


def _has_pictures(arguments: argparse.Namespace) -> bool:
    return bool(arguments.html or arguments.svg)


def _check_outputs(arguments: argparse.Namespace) -> None:
    """Refuse unwritable files, and pictures without matplotlib, now, not after a long test."""
    if _has_pictures(arguments):
        import matplotlib  # noqa: F401

    results = arguments.json, arguments.csv, arguments.html, arguments.svg, arguments.values
    for file in results:
        if file is None:
            continue
        if not file.parent.is_dir():
            raise UsageError(f"{file}: cannot be written: name a file in an existing folder")
        check_file(file, arguments.force)
        if not os.access(file if file.exists() else file.parent, os.W_OK):
            raise UsageError(f"{file}: cannot be written: permission denied")


def _keep(arguments: argparse.Namespace, run: Run) -> None:
    from dragoman_load_test.capacity import values_of
    from dragoman_load_test.results import csv_of

    files: dict[Path | None, Callable[[], str]] = {
        arguments.json: run.to_json,
        arguments.csv: lambda: csv_of(run.points),
    }
    if _has_pictures(arguments):
        from dragoman_load_test.reports.pages import run_page
        from dragoman_load_test.reports.plots import draw_run

        files |= {arguments.html: lambda: run_page(run), arguments.svg: lambda: draw_run(run)}
    if run.capacity and (plan := run.capacity.plan):
        files[arguments.values] = lambda: values_of(plan)
    _write(files)


def _write(files: Mapping[Path | None, Callable[[], str]]) -> None:
    """Write the requested files; if one fails, the others are still written."""
    logging.getLogger("matplotlib").setLevel(logging.WARNING)  # it logs about its fonts
    failed = None
    for file, content in files.items():
        if file is None:
            continue
        try:
            file.write_text(content(), encoding="utf-8")
        except OSError as error:
            failed = DragomanError(f"{file}: cannot be written: {error.strerror}")
            continue
        print(f"wrote {file}", file=sys.stderr)
    if failed is not None:
        raise failed
