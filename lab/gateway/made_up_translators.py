"""Translators without a model, for tests of markup handling.

They are used in this process, and in LibreTranslate's process beside `argos_stand_in`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

HOSTILE = " <b title=x>&amp;</b></p>--><script>x</script>"
"""Text that a model may generate and that nobody may take for markup."""


def _changed(text: str) -> str:
    """Other text of the same length; like our engine, an empty text for white space."""
    upper = (one.upper() for one in text)
    return "" if text.isspace() else "".join(one if len(one) == 1 else "?" for one in upper)


TRANSLATORS: Mapping[str, Callable[[str], str]] = {
    "identity": str,
    "changed": _changed,
    "hostile": lambda text: text + HOSTILE if text.strip() else text,
}
"""By name."""
