"""Processor time of the trainer for a step's batch and an epoch's plan, alone and with processes.

The text must be encoded, such as by a run that was stopped:

    python -m lab.training.batches RUN --config RECIPE --data-dir TEXT
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from pathlib import Path

from dragoman_training.config import resolve
from dragoman_training.run.run_text import RunText
from dragoman_training.steps.processes import Processes
from dragoman_training.text.batches import Batches

from lab.measurement import Results, number, option, program

STEPS, STEP_S = 60, 0.05
"""Steps that are measured, and what a GPU takes for one meanwhile."""


@program(
    option("run", type=Path, help="folder of a run, with its encoded text"),
    option("--config", type=Path, required=True, help="the run's recipe"),
    option("--data-dir", type=Path, default=Path(), help="folder of its text"),
    number("--batch-tokens", 48_000),
)
def main(arguments: argparse.Namespace) -> Results:
    """Print milliseconds a step and a plan, for both."""
    config, run, tokens = resolve(arguments.config, []), arguments.run, arguments.batch_tokens
    text = RunText(config, arguments.data_dir, run, run / "tokenizer.model", Processes())
    examples = text.examples
    epoch = (tokens, tokens, 1, 0, config.data.joined_share, None)
    print(f"{len(examples)} examples of {len(config.data.train)} corpora, {tokens} tokens a step")
    taken = []
    for processes in (0, 3) * 2:
        with Batches(examples, processes) as batches:
            while processes and not batches.plan_ahead(*epoch):
                time.sleep(0.1)  # until it is ready
            begin_s = time.process_time()
            steps = batches.plan(*epoch)
            plan_s, step_s = time.process_time() - begin_s, 0.0
            for number, parts in enumerate(steps[:STEPS]):
                begin_s = time.process_time()
                near = steps[number : number + 8]
                batches.collate_ahead(itertools.chain.from_iterable(near))
                for part in parts:
                    batches.batch(part)
                step_s += time.process_time() - begin_s
                time.sleep(STEP_S)
        step_ms = 1000 * step_s / min(STEPS, len(steps))
        print(f"{processes} processes: {step_ms:.1f} ms a step, {1000 * plan_s:.0f} ms a plan")
        taken.append({"processes": processes, "step_ms": step_ms, "plan_s": plan_s})
    return {"rounds": taken}


if __name__ == "__main__":
    sys.exit(main())
