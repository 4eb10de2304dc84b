"""`python -m dragoman_options`: the table of options in Markdown, as docs/options.md has it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dragoman_options.option import Option
from dragoman_options.table import OPTIONS, SAMPLING

_BOUNDS = {
    "max_target_tokens": "the model's `max_target_tokens`",
    "max_beam_width": "the model's `max_beam_width`",
    "most_text_tokens": "what the model takes whole",
    "vocabulary": "the vocabulary's size",
}
_HEAD = """\
| option | type | default | range | taken by | what it does |
|---|---|---|---|---|---|
"""


def table() -> str:
    """The table, with a line at its end."""
    return _HEAD + "".join(f"| {' | '.join(_cells(one))} |\n" for one in OPTIONS.values())


def _cells(option: Option) -> Iterator[str]:
    yield f"`{option.name}`"
    yield option.kind
    yield option.unset if option.default is None else _written(option.default)
    yield _range(option)
    yield _models(option)
    yield "; ".join(_meaning(option))


def _range(option: Option) -> str:
    if option.range is not None:
        least, most = option.range.least, option.range.most
        lower = f"above {least:g}" if option.range.above else f"{least:g}"
        if isinstance(most, str):
            return f"{lower} to {_BOUNDS[most]}"
        return f"{lower} to 2^63 - 1" if most > 1e6 else f"{lower} to {most:g}"
    if option.items is not None:
        items = option.items
        return f"{items.most:,} {items.name}s of {items.characters} characters"
    return ", ".join(f"`{choice}`" for choice in option.choices)


def _meaning(option: Option) -> Iterator[str]:
    yield option.help + (f" ({option.source})" if option.source else "")
    if option.only_with:
        yield f"only with `{option.only_with}`"
    excluded = [f"`{name}`" for name in option.not_with if name not in SAMPLING]
    excluded += ["sampling"] * (set(SAMPLING) <= set(option.not_with))
    if excluded:
        yield f"not with {', '.join(excluded)}"
    if option.at_most:
        yield f"at most `{option.at_most}`"


def _models(option: Option) -> str:
    if option.streams and option.scores:
        return "all"
    return "translate" + ", streams" * option.streams + ", score" * option.scores


def _written(default: Any) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:g}" if isinstance(default, int | float) else "none"


if __name__ == "__main__":
    print(table(), end="")
