"""A page that shows what every head looked at: one HTML file that asks the network for nothing."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Sequence
from importlib import resources

from dragoman.drawing.colours import head_colours
from dragoman.kernel.attention_maps import Attention, Kind

LEAST = 0.02
"""Weights below it have no line: a token has at most fifty of them a head."""
NAMES: dict[Kind, str] = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "cross": "cross-attention",
}
_SIDES = {"encoder": ("source", "source"), "decoder": ("said", "read"), "cross": ("said", "source")}
_MARKER = re.compile("@@([a-z]+)@@")
_IN_SCRIPT = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}
"""What could end a script, or a line of one, as JSON writes it otherwise."""


def write_page(
    attention: Attention,
    text: str,
    translation: str,
    kind: Kind = "encoder",
    layer: int | None = None,
    heads: Sequence[int] | None = None,
    token: int | None = None,
) -> str:
    """A page in which kind, layer and heads can be chosen.

    Args:
        attention: what was looked at.
        text: as it was given.
        translation: of it.
        kind: shown first; so `layer`, None for the last, `heads`, None for all, and `token`, the
            place of the only one that looks, None for all.
        layer: see `kind`.
        heads: see `kind`.
        token: see `kind`.
    """
    layers, number = attention.weights(kind).shape[:2]
    data = json.loads(attention.to_json()) | {
        "text": text,
        "translation": translation,
        "names": NAMES,
        "sides": _SIDES,
        "colours": head_colours(number),
        "least": LEAST,
        "chosen": {
            "kind": kind,
            "layer": layers - 1 if layer is None else layer,
            "heads": list(range(number) if heads is None else heads),
            "token": token,
        },
    }
    written = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    parts = {
        "style": _part("page.css"),
        "script": _part("page.js"),
        "least": html.escape(str(LEAST)),
        "data": written.translate(_IN_SCRIPT),
    }
    # In one pass: what stands in the texts is not looked at again.
    return _MARKER.sub(lambda marker: parts[marker[1]], _part("page.html"))


def inline_hashes() -> tuple[str, str]:
    """Hashes of the page's script and style, for the policy of whoever shows the page.

    Returns:
        As sources of a content security policy, such as `sha256-...`.
        Source: https://www.w3.org/TR/CSP3/#grammardef-hash-source
    """
    # As they stand in page.html: each between two line breaks.
    digests = (hashlib.sha256(f"\n{_part(name)}\n".encode()) for name in ("page.js", "page.css"))
    script, style = (f"sha256-{base64.b64encode(one.digest()).decode()}" for one in digests)
    return script, style


def _part(name: str) -> str:
    folder = resources.files("dragoman.drawing") / "page_parts"
    return (folder / name).read_text(encoding="utf-8")
