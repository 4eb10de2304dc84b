"""`python -m dragoman_options`: prints the tables of options and outputs in Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from dragoman_options.option import Option
from dragoman_options.output import Output
from dragoman_options.table import OPTIONS, OUTPUTS, SCORE, restrictions

_BOUNDS = {
    "max_target_tokens": "the model's `max_target_tokens`",
    "max_beam_width": "the model's `max_beam_width`",
    "most_text_tokens": "the model's limit for a text",
    "vocabulary": "the vocabulary's size",
}
_LEGS = {
    "last": "through a pivot language: for the second leg",
    "none": "not through a pivot language",
}
_HEAD = """\
| option | type | default | range | accepted by | meaning |
|---|---|---|---|---|---|
"""
_OUTPUTS_HEAD = """\
| output | field | type | models | when | contents |
|---|---|---|---|---|---|
"""


def option_table() -> str:
    """Returns the table of options, with a final newline."""
    return _HEAD + "".join(f"| {' | '.join(_cells(option))} |\n" for option in OPTIONS.values())


def output_table() -> str:
    """Returns the table of outputs, with a final newline."""
    return _OUTPUTS_HEAD + "".join(
        f"| `{output.name}` | `{output.field}` | "
        f"{output.codec.datatype}{', ' * bool(output.codec.form)}{output.codec.form} | "
        f"{', '.join(output.models)} | {_when(output)} | {output.help} |\n"
        for output in OUTPUTS.values()
    )


def _when(output: Output) -> str:
    """The option that requests an output, and the models that send it without."""
    options = [
        f"with `{option.name}`" for option in OPTIONS.values() if option.output == output.name
    ]
    options += ["with `source_language` auto"] * output.detected
    options += ["if there is one"] * output.if_any
    if options and output.always:
        options.append(f"always from {', '.join(output.always)}")
    return "; ".join(options) or "always"


def _cells(option: Option) -> Iterator[str]:
    yield f"`{option.name}`"
    yield option.kind
    yield option.default_text
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
    yield from restrictions(option)
    if option.legs in _LEGS:
        yield _LEGS[option.legs]
    if option.output and SCORE in OUTPUTS[option.output].always:
        yield "`score` always returns it"


def _models(option: Option) -> str:
    if option.streams and option.scores:
        return "all"
    return "translate" + ", streams" * option.streams + ", score" * option.scores


if __name__ == "__main__":
    print(option_table(), output_table(), sep="\n", end="")
