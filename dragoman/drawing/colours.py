"""A colour for each head."""

from __future__ import annotations

import colorsys

_FEW = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c564b", "#7f7f7f")
"""Safe for colour-blind readers. Source: Okabe and Ito, "Color Universal Design" (2008)."""


def head_colours(heads: int) -> list[str]:
    """Returns a colour for each head, in the notation of CSS and matplotlib."""
    if heads <= len(_FEW):
        return list(_FEW[:heads])
    turns = (colorsys.hls_to_rgb(head / heads, 0.5, 0.65) for head in range(heads))
    return ["#" + "".join(f"{round(255 * part):02x}" for part in turn) for turn in turns]
