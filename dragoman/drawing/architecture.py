"""Draws a model's architecture as boxes, like Figure 1 of the paper, with the model's sizes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from dragoman.drawing.style import plain, style
from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Dimensions, Manifest

_CONFIG = "config.json"
_COLOURS = {
    "embedding": "#fbe3e1",
    "attention": "#fde3c4",
    "feed-forward": "#cfe8f7",
    "norm": "#f3f4c8",
    "output": "#dcdff5",
    "softmax": "#d3efd5",
}
_LEFT, _RIGHT = 0.0, 5.2
_WIDTH, _HEIGHT, _GAP = 3.6, 0.62, 0.26
_INK = "#333333"
_SSRU = "SSRU"


@dataclass(frozen=True)
class Architecture:
    """The architecture of a model."""

    sizes: Dimensions
    languages: tuple[str, ...]
    norm: str = "post"
    """`post`: after the residual sum; `pre`: before the sub-layer."""
    activation: str = "relu"
    """Activation of the feed-forward layers."""
    own_output: bool = False
    """Whether the output projection has its own weights, not the embedding's."""

    @classmethod
    def of_bundle(cls, folder: Path) -> Architecture:
        """Read the architecture of a bundle.

        Raises:
            UsageError: the bundle is damaged.
        """
        manifest = Manifest.load(folder)
        path = folder / _CONFIG
        try:
            model = json.loads(path.read_text(encoding="utf-8"))["model"]
            norm, own_output = model.get("norm", cls.norm), model.get("own_output", cls.own_output)
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise UsageError(f"{path}: is not a model's configuration") from error
        if norm not in ("post", "pre") or type(own_output) is not bool:
            raise UsageError(f"{path}: is not a model's configuration")
        sizes, languages = manifest.dimensions, manifest.languages
        return cls(sizes, languages, norm, manifest.activation, own_output)


def draw_architecture(architecture: Architecture) -> Figure:
    """Draw the encoder on the left and the decoder on the right, with data flowing upwards."""
    sizes = architecture.sizes
    with style():
        figure = Figure(figsize=(7.6, 8.2), layout="constrained")
        axes = figure.add_subplot()
        axes.set_title(
            f"{plain(', '.join(architecture.languages))}; vocabulary {sizes.vocab_size:,}, "
            f"{'norm after' if architecture.norm == 'post' else 'norm before'} each sub-layer",
            fontsize=10,
        )
        axes.axis("off")
        encoder = _Stack(axes, _LEFT, architecture)
        decoder = _Stack(axes, _RIGHT, architecture)
        encoder.embedding("source tokens", sizes.src_ids)
        encoder.layers(sizes.encoder_layers, ["self-attention", "feed-forward"])
        top = encoder.last_norm()
        decoder.embedding("target tokens, shifted right", sizes.vocab_size)
        first = _SSRU if sizes.is_recurrent else "masked self-attention"
        decoder.layers(sizes.decoder_layers, [first, "cross-attention", "feed-forward"])
        decoder.last_norm()
        matrix = "its own" if architecture.own_output else "embedding"
        decoder.box("output", f"projection {sizes.model_size} → {sizes.vocab_size:,}\n({matrix})")
        highest = decoder.box("softmax", "softmax")
        # From the encoder's top to the middle between both, then to the cross-attention box.
        above, between = top + _GAP, (_LEFT + _WIDTH + _RIGHT) / 2
        middle, place = _LEFT + _WIDTH / 2, decoder.places["cross-attention"]
        axes.plot((middle, middle, between, between), (top, above, above, place), color=_INK, lw=1)
        _arrow(axes, (between, place), (_RIGHT, place))
        axes.set(xlim=(-1.3, _RIGHT + _WIDTH + 1.3), ylim=(-0.9, highest + 0.5))
    return figure


class _Stack:
    """A stack of boxes, built from the bottom up."""

    def __init__(self, axes: Axes, left: float, architecture: Architecture) -> None:
        self._axes, self._left, self._architecture = axes, left, architecture
        self._next = 0.0
        self.places: dict[str, float] = {}
        """Vertical centre of the boxes, by name."""

    def box(self, colour: str, text: str) -> float:
        """Add a box, and return its upper edge."""
        axes, left, bottom = self._axes, self._left, self._next
        axes.add_patch(
            FancyBboxPatch(
                (left, bottom),
                _WIDTH,
                _HEIGHT,
                boxstyle="round,pad=0,rounding_size=0.08",
                facecolor=_COLOURS[colour],
                edgecolor=_INK,
            )
        )
        middle = bottom + _HEIGHT / 2
        axes.text(left + _WIDTH / 2, middle, text, ha="center", va="center", fontsize=8)
        if bottom > 0:
            centre = left + _WIDTH / 2
            _arrow(axes, (centre, bottom - _GAP), (centre, bottom))
        self._next = bottom + _HEIGHT + _GAP
        return bottom + _HEIGHT

    def embedding(self, what: str, entries: int) -> None:
        """Add the input, its embedding and the position encodings."""
        sizes = self._architecture.sizes
        self._axes.text(self._left + _WIDTH / 2, -0.45, what, ha="center", va="center")
        self.box("embedding", f"embedding {entries:,} by {sizes.model_size}")
        self.box("embedding", f"times √{sizes.model_size}, plus position encodings")

    def layers(self, number: int, parts: list[str]) -> None:
        """Add the boxes of one layer, in a frame with the number of layers."""
        sizes, pre = self._architecture.sizes, self._architecture.norm == "pre"
        bottom = self._next - _GAP / 2
        for part in parts:
            branch = self._next - 0.7 * _GAP
            if pre:
                self.box("norm", "layer norm")
            self.places[part] = self._next + _HEIGHT / 2
            if part == "feed-forward":
                size = sizes.model_size
                text = f"feed-forward {size} → {sizes.feed_forward_size:,} → {size}"
                if self._architecture.activation != "relu":
                    text += f"\n{self._architecture.activation}"
                self.box("feed-forward", text)
            elif part == _SSRU:
                self.box("attention", f"{part}\nstate of {sizes.model_size}")
            else:
                heads = f"{sizes.heads} heads of {sizes.head_size}"
                self.box("attention", f"{part}\n{heads}")
            added = self._next + _HEIGHT / 2
            self.box("norm", "add" if pre else "add, layer norm")
            self._residual(branch, added)
        height = self._next - _GAP / 2 - bottom
        self._axes.add_patch(
            FancyBboxPatch(
                (self._left - 0.25, bottom),
                _WIDTH + 0.5,
                height,
                boxstyle="round,pad=0,rounding_size=0.15",
                fill=False,
                edgecolor="#777777",
            )
        )
        outside = self._left - 0.35 if self._left == _LEFT else self._left + _WIDTH + 0.35
        side = "right" if self._left == _LEFT else "left"
        self._axes.text(outside, bottom + height / 2, f"{number} layers", ha=side, va="center")

    def _residual(self, begin: float, end: float) -> None:
        """Draw the residual connection around a sub-layer."""
        middle, outside = self._left + _WIDTH / 2, self._left - 0.13
        self._axes.plot((middle, outside, outside), (begin, begin, end), color=_INK, lw=1)
        _arrow(self._axes, (outside, end), (self._left, end))

    def last_norm(self) -> float:
        """Add the norm after the last layer, if there is one, and return the upper edge."""
        if self._architecture.norm == "pre":
            return self.box("norm", "layer norm")
        return self._next - _GAP


def _arrow(axes: Axes, begin: tuple[float, float], end: tuple[float, float]) -> None:
    arrow = {"arrowstyle": "-|>", "color": _INK, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", end, begin, arrowprops=arrow)
