"""Spans of the engine's stages, for sentences that were submitted together."""

from __future__ import annotations

import time
from collections.abc import Sequence

from dragoman_serving.engine.batching.job import Job
from dragoman_serving.engine.futures import outcome_error
from dragoman_serving.engine.request_trace import RequestTrace, when_settled


def trace_search(trace: RequestTrace, jobs: Sequence[Job]) -> None:
    """Add spans to a trace when all of these jobs have ended: `queue`, `encode`, `decode`.

    Each span begins when the first sentence reaches the stage, and ends when the last one leaves
    it, so that the spans of several sentences overlap.
    """
    when_settled([job.future for job in jobs], lambda: _add_spans(trace, jobs))


def _add_spans(trace: RequestTrace, jobs: Sequence[Job]) -> None:
    now_s = time.monotonic()
    errors = [error for job in jobs if (error := outcome_error(job.future)) is not None]
    error = errors[0] if errors else None
    sentences = {"sentences": len(jobs)}
    joined_s = [job.joined_s for job in jobs if job.joined_s is not None]
    never_joined = len(joined_s) < len(jobs)
    trace.add(
        "queue",
        min(job.submitted_s for job in jobs),
        now_s if never_joined else max(joined_s),
        sentences,
        error if never_joined else None,
    )
    encoded = [job for job in jobs if job.encoded_s is not None]
    if not joined_s or not encoded:
        return
    encoded_s = [job.encoded_s for job in encoded if job.encoded_s is not None]
    input_tokens = sum(len(job.sentence.src_ids) for job in encoded)
    trace.add(
        "encode",
        min(joined_s),
        max(encoded_s),
        {"sentences": len(encoded), "input_tokens": input_tokens},
    )
    hypotheses = [job.future.result() for job in jobs if outcome_error(job.future) is None]
    attributes: dict[str, str | int] = {
        "sentences": len(hypotheses),
        "output_tokens": sum(len(hypothesis.ids) for hypothesis in hypotheses),
        "beam_width": max(job.sentence.options.beam_width for job in jobs),
        "steps": max(job.steps for job in jobs),
    }
    if not errors:
        attributes["finish_reason"] = (
            "stop" if all(hypothesis.complete for hypothesis in hypotheses) else "length"
        )
    trace.add("decode", min(encoded_s), now_s, attributes, error)
