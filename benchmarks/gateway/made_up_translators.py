"""Translators without a model, by which the handling of markup is judged.

They are used in this process, and in that of LibreTranslate, beside `argos_stand_in`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

HOSTILE = " <b title=x>&amp;</b></p>--><script>x</script>"
"""What a model may generate, and nobody must take for markup."""


def _changed(text: str) -> str:
    """Other text of the same length; as of our engine, nothing if there is only white space."""
    upper = (one.upper() for one in text)
    return "" if text.isspace() else "".join(one if len(one) == 1 else "?" for one in upper)


TRANSLATORS: Mapping[str, Callable[[str], str]] = {
    "identity": str,
    "changed": _changed,
    "hostile": lambda text: text + HOSTILE if text.strip() else text,
}
"""By name."""
