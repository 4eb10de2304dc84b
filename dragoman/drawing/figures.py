"""Figures for print: lines between tokens, heat maps of all heads, position encodings.

`draw_architecture` is in another module.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from reprlib import repr as brief
from typing import Any

from matplotlib.figure import Figure

from dragoman.drawing.colours import head_colours
from dragoman.drawing.page import LEAST, NAMES
from dragoman.drawing.style import plain, style
from dragoman.kernel.attention_maps import Attention, Kind
from dragoman.kernel.errors import writing
from dragoman.kernel.positions import PositionRates, sinusoidal_positions

_log = logging.getLogger(__name__)

FORMATS = (".svg", ".png", ".pdf")
_ROW_INCHES = 0.2
_NO_GLYPH = re.compile(r"Glyph (\d+) ")
_MOST_LABELS = 40
"""Most token labels of a heat map; more would not be legible."""


def draw_lines(
    attention: Attention,
    kind: Kind,
    layer: int,
    heads: Sequence[int],
    tokens: Sequence[int] | None = None,
) -> Figure:
    """Draw one layer's attention as lines between tokens, like Figures 3 to 5 of the paper.

    Each head has its own colour.

    Args:
        attention: the attention weights.
        kind: kind of attention.
        layer: from 0.
        heads: from 0.
        tokens: positions of the query tokens to draw; None for all.
    """
    weights = attention.weights(kind)[layer]
    queries, keys = attention.queries(kind), attention.keys(kind)
    colours = head_colours(len(weights))
    with style():
        rows = max(len(queries), len(keys))
        figure = Figure(figsize=(5.5, 0.7 + _ROW_INCHES * rows), layout="constrained")
        axes = figure.add_subplot()
        axes.set(xlim=(-0.9, 1.9), ylim=(rows - 0.5, -0.5))
        axes.axis("off")
        where = f"head {heads[0]}" if len(heads) == 1 else f"heads {', '.join(map(str, heads))}"
        axes.set_title(f"{NAMES[kind]}, layer {layer}, {where}", fontsize=10)
        for place, token in enumerate(queries):
            face = "bold" if tokens is not None and place in tokens else "normal"
            axes.text(-0.03, place, plain(token), ha="right", va="center", fontweight=face)
        for place, token in enumerate(keys):
            axes.text(1.03, place, plain(token), ha="left", va="center")
        for head in heads:
            for query, key in zip(*(weights[head] >= LEAST).nonzero(), strict=True):
                if tokens is not None and query not in tokens:
                    continue
                weight = float(weights[head, query, key])
                axes.plot(
                    (0, 1),
                    (query, key),
                    color=colours[head],
                    linewidth=0.3 + 3.5 * weight,
                    alpha=min(1.0, 0.15 + weight),
                    solid_capstyle="round",
                )
    return figure


def draw_grid(attention: Attention, kind: Kind, heads: Sequence[int] | None = None) -> Figure:
    """Draw the heads of all layers as heat maps: rows are queries, columns are keys.

    Args:
        attention: the attention weights.
        kind: kind of attention.
        heads: from 0; None for all.
    """
    weights = attention.weights(kind)
    layers = len(weights)
    shown = range(weights.shape[1]) if heads is None else heads
    queries, keys = attention.queries(kind), attention.keys(kind)
    with style():
        size = 1.7 if max(len(queries), len(keys)) <= _MOST_LABELS else 2.2
        figure = Figure(figsize=(1.2 + size * len(shown), 1 + size * layers), layout="constrained")
        figure.suptitle(f"{NAMES[kind]}: rows are queries, columns are keys", fontsize=10)
        grid = figure.subplots(layers, len(shown), squeeze=False, sharex=True, sharey=True)
        for layer, row in enumerate(grid):
            for head, axes in zip(shown, row, strict=True):
                axes.imshow(
                    weights[layer, head], cmap="Blues", vmin=0, vmax=1, interpolation="none"
                )
                axes.set_title(f"layer {layer}, head {head}", fontsize=7, pad=2)
                axes.tick_params(length=0)
                _label(axes, queries, keys)
    return figure


def draw_positions(model_size: int, positions: int, rates: PositionRates = "paper") -> Figure:
    """Draw the sinusoids that are added to the embeddings of the first positions."""
    table = sinusoidal_positions(positions, model_size, rates)
    with style():
        figure = Figure(figsize=(7, 5.2), layout="constrained")
        above, below = figure.subplots(2, 1, height_ratios=(1.6, 1))
        image = above.imshow(
            table, cmap="RdBu", vmin=-1, vmax=1, aspect="auto", interpolation="none"
        )
        figure.colorbar(image, ax=above)
        above.set(
            title=f"position encodings [{positions}, {model_size}]",
            xlabel="column: sines in even columns, cosines in odd columns",
            ylabel="position",
        )
        for column in sorted({0, model_size // 8 * 2, model_size // 4 * 2}):
            below.plot(table[:, column], label=f"column {column}")
        below.set(xlabel="position", ylim=(-1.1, 1.1), xlim=(0, positions - 1))
        below.legend(loc="lower right", framealpha=0.9)
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write a figure in the format of the file's extension; the output is reproducible.

    Raises:
        UsageError: the file cannot be written.
    """
    undated: Any = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    ending = path.suffix.lower()
    with writing(f"--out {path}"), style(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        figure.savefig(path, dpi=150, metadata=undated.get(ending))
    missing = {match[1] for warning in caught if (match := _NO_GLYPH.match(str(warning.message)))}
    # A viewer of SVG uses its own fonts.
    if missing and ending != ".svg":
        characters = "".join(sorted(map(chr, map(int, missing))))
        _log.warning(
            "%s: no installed font has %s, so boxes are drawn instead; install a font, "
            "such as Noto Sans CJK, or draw an .svg or a page",
            path,
            brief(characters),
        )


def _label(axes: Any, queries: Sequence[str], keys: Sequence[str]) -> None:
    for axis, tokens, turn in ((axes.yaxis, queries, 0), (axes.xaxis, keys, 90)):
        if len(tokens) > _MOST_LABELS:
            axis.set_ticks([])
            continue
        size = 5 if len(tokens) > _MOST_LABELS // 2 else 6
        axis.set_ticks(range(len(tokens)), map(plain, tokens), fontsize=size, rotation=turn)
