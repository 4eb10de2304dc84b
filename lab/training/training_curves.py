"""Draws the curves of training runs: losses, and BLEU if the run measured it.

Each chart is written beside its log:

    python -m lab.training.training_curves docs/training-runs/*.jsonl
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from dragoman_load_test.reports.plots import COLOURS
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dragoman.kernel.errors import UsageError
from lab.measurement import option, program
from lab.pictures import draw_svg

_SHOWN_FROM = 0.1
"""Share of a run before which losses may exceed the chart: they fall from 9 within moments."""


@dataclass
class Curve:
    """Measured values, by the number of target tokens trained on, in millions."""

    tokens: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)


def read_curves(path: Path) -> dict[str, Curve]:
    """The curves in a `log.jsonl`; see `curves`.

    Raises:
        UsageError: it cannot be read, or is not such a log.
    """
    try:
        by_name = curves([json.loads(line) for line in path.read_text("utf-8").splitlines()])
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path}: is not a log of a training run") from error
    if not by_name:
        raise UsageError(f"{path}: is empty")
    return by_name


def curves(rows: Sequence[dict[str, Any]]) -> dict[str, Curve]:
    """Curves by name: `training`, the validation corpora or `validation`, and maybe `BLEU`."""
    by_name: dict[str, Curve] = {}
    for row in rows:
        values = {"training": row["loss"]}
        if row["kind"] == "valid":
            values = dict(row.get("corpora") or {"validation": row["loss"]})
            if row.get("bleu") is not None:
                values["BLEU"] = row["bleu"]
        for name, value in values.items():
            curve = by_name.setdefault(name, Curve())
            curve.tokens.append(row["tgt_tokens"] / 1e6)
            curve.values.append(float(value))
    return by_name


def draw(by_name: Mapping[str, Curve]) -> str:
    """The curves as SVG."""
    losses = dict(by_name)
    bleu = losses.pop("BLEU", None)

    def fill(figure: Figure) -> None:
        left, *right = figure.subplots(1, 1 if bleu is None else 2, squeeze=False)[0]
        _fill_losses(left, losses)
        if bleu is not None:
            right[0].plot(bleu.tokens, bleu.values, color=COLOURS[0])
            right[0].set(xlabel="target tokens (millions)", ylabel="BLEU, greedy, validation")

    return draw_svg((6.0 if bleu is None else 9.0, 3.4), fill)


def _fill_losses(axes: Axes, losses: dict[str, Curve]) -> None:
    end = max(curve.tokens[-1] for curve in losses.values())
    shown = []
    colours = itertools.cycle(COLOURS)
    for name, curve in losses.items():
        training = name == "training"
        look = {"color": "#b0b0b0", "linewidth": 0.8} if training else {"color": next(colours)}
        axes.plot(curve.tokens, curve.values, label=name, **look)
        late = np.array(curve.tokens) >= _SHOWN_FROM * end
        shown += list(np.array(curve.values)[late])
    room = 0.05 * (max(shown) - min(shown))
    axes.set_ylim(min(shown) - room, max(shown) + room)
    axes.set(xlabel="target tokens (millions)", ylabel="loss (nats a target token)")
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2)


@program(option("log", type=Path, nargs="+", help="as `dragoman train` writes it"), measures=False)
def main(arguments: argparse.Namespace) -> None:
    """Draw a chart for each log."""
    for log in arguments.log:
        log.with_suffix(".svg").write_text(draw(read_curves(log)), encoding="utf-8")
        print(log.with_suffix(".svg"))


if __name__ == "__main__":
    sys.exit(main())
