"""Artificial results of load tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dragoman_load_test.latency import LatencyHistogram
from dragoman_load_test.results import Judgement, Moment, Point, Run, Window
from dragoman_load_test.server_figures import ServerFigures
from dragoman_load_test.texts import TextMix


def encoded(latencies_ms: Iterable[float]) -> str:
    """An encoded histogram of these latencies."""
    made = LatencyHistogram()
    for latency_ms in latencies_ms:
        made.record(latency_ms / 1000)
    return made.encode()


def window(
    latencies_ms: Iterable[float] = (10,),
    errors: Mapping[str, int] | None = None,
    first_parts_ms: Iterable[float] = (),
) -> Window:
    """A window of two seconds, with one sentence of three tokens for each latency."""
    latencies = list(latencies_ms)
    return Window(
        elapsed_s=2.0,
        requests=len(latencies) + sum((errors or {}).values()),
        answers=len(latencies),
        sentences=len(latencies),
        tokens=3 * len(latencies),
        errors=errors or {},
        latencies=encoded(latencies),
        first_parts=encoded(first_parts_ms),
        per_token=encoded(first_parts_ms),
        processors=0.25,
        in_flight=1,
    )


def point(*windows: Window, load: str = "concurrency 8", **changes: object) -> Point:
    """The results of a load with these windows."""
    values: dict[str, object] = {
        "load": load,
        "closed": True,
        "amount": 8.0,
        "batch_size": 1,
        "windows": windows,
        "timeline": (Moment(5, 5, 0, 9.0, 12.0, 13.0), Moment(0, 0, 1, 0.0, 0.0, 0.0)),
        "examples": {},
        "warm_up_errors": {},
        "lag": encoded([1]),
        "server": ServerFigures(4.0, {"dragoman_sentences_total": 8.0}),
        "notes": (),
        **changes,
    }
    return Point(**values)  # type: ignore[arg-type]


def run(*points: Point, judgements: tuple[Judgement, ...] = ()) -> Run:
    """The results of a load test with these loads."""
    return Run(
        date="2026-01-02T03:04:05+00:00",
        command="dragoman load-test",
        url="grpc://localhost:8001",
        protocol="gRPC",
        options={"target_language": "de", "beam_width": 4, "split_sentences": True},
        texts=TextMix.of("texts", ["one", "two"]),
        machine="2 x processor",
        window_s=2.0,
        warm_up_s=1.0,
        points=points,
        judgements=judgements,
    )
