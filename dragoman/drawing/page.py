"""A web page that shows the attention of every head: one HTML file without network requests."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Sequence
from importlib import resources

from dragoman.drawing.colours import head_colours
from dragoman.kernel.attention_maps import KINDS, Attention, Kind

LEAST = 0.02
"""Smaller weights have no line, so a token has at most 50 lines per head."""
NAMES: dict[Kind, str] = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "cross": "cross-attention",
}
_MARKER = re.compile("@@([a-z]+)@@")
_IN_SCRIPT = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}
"""JSON escapes of the characters that could end a script, or a line of it."""


def write_page(
    attention: Attention,
    text: str,
    translation: str,
    kind: Kind = "cross",
    layer: int | None = None,
    heads: Sequence[int] | None = None,
    token: int | None = None,
) -> str:
    """Returns a page in which kind, layer and heads can be chosen.

    Args:
        attention: the attention weights.
        text: the source text, as given.
        translation: its translation.
        kind: kind of attention that is shown first.
        layer: layer that is shown first; None for the alignment heads' layer, or the last.
        heads: heads that are shown first; None for the alignment heads, or all.
        token: position of the query token that is shown first; None for all.
    """
    layers, number = attention.weights(kind).shape[:2]
    aligning = None
    if attention.alignment_heads:
        first = attention.alignment_heads[0][0]
        of_first = [head for of, head in attention.alignment_heads if of == first]
        aligning = {"layer": first, "heads": of_first}
        if kind == "cross" and layer is None and heads is None:
            layer, heads = first, of_first
    data = json.loads(attention.to_json()) | {
        "text": text,
        "translation": translation,
        "names": NAMES,
        "sides": {
            name: (attention.queries(name), attention.keys(name))
            for name in KINDS
            if len(attention.weights(name))
        },
        "aligning": aligning,
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
    # A single pass, so that markers within the texts are not replaced.
    return _MARKER.sub(lambda marker: parts[marker[1]], _part("page.html"))


def inline_hashes() -> tuple[str, str]:
    """Returns hashes of the page's script and style, for a content security policy.

    Returns:
        Both as sources of a policy, such as `sha256-...`.
        Source: https://www.w3.org/TR/CSP3/#grammardef-hash-source
    """
    # In page.html each stands between two line breaks.
    digests = (hashlib.sha256(f"\n{_part(name)}\n".encode()) for name in ("page.js", "page.css"))
    script, style = (f"sha256-{base64.b64encode(digest.digest()).decode()}" for digest in digests)
    return script, style


def _part(name: str) -> str:
    folder = resources.files("dragoman.drawing") / "page_parts"
    return (folder / name).read_text(encoding="utf-8")
