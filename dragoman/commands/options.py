"""The options of a translation as flags of a command, from the table of options."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from dragoman.kernel.errors import UsageError

if TYPE_CHECKING:
    from dragoman_options.arguments import OptionArguments
    from dragoman_options.option import Kind, Option

_SIDES = 2
_TYPES: dict[Kind, type] = {"whole number": int, "number": float, "terms": Path}
_METAVARS: dict[Kind, str] = {
    "texts": "TEXT",
    "terms": "FILE",
    "whole number": "N",
    "number": "X",
}
_FILE = "; the file has a source term, a tab and its target term on each line"


def configure_options(
    parser: argparse.ArgumentParser, model: str = "translate", names: Collection[str] = ()
) -> None:
    """Declare the options that a model takes, of these names; none named: all."""
    from dragoman_options.table import OPTIONS, OUTPUTS, takes

    group = parser.add_argument_group("options of a translation", "see docs/options.md")
    for name in names or OPTIONS:
        output = OUTPUTS.get(OPTIONS[name].output or "")
        if takes(model, OPTIONS[name]) and not (output and model in output.always):
            _declare(group, OPTIONS[name])


def given_options(arguments: argparse.Namespace) -> OptionArguments:
    """What `configure_options` has declared, as far as it was given.

    Raises:
        UsageError: the file of a glossary cannot be read, or is none.
    """
    from dragoman_options.table import OPTIONS

    found = {name: getattr(arguments, name, None) for name in OPTIONS}
    for name, value in found.items():
        if isinstance(value, Path):
            found[name] = read_terms(value, flag(name))
    return cast("OptionArguments", {k: v for k, v in found.items() if v is not None})


def flag(name: str) -> str:
    """The flag of an option."""
    return f"--{name.replace('_', '-')}"


def outputs_given(options: Collection[str]) -> list[str]:
    """The flags that ask for what only JSON shows."""
    from dragoman_options.table import OPTIONS

    several = "num_return_sequences"
    return [flag(name) for name in options if OPTIONS[name].output or name == several]


def read_terms(file: Path, name: str) -> dict[str, str]:
    """Source and target terms of a file, a pair a line, with a tab between them.

    Args:
        file: in UTF-8.
        name: of the flag, for messages.

    Raises:
        UsageError: the file cannot be read, or a line has not two terms, by number.
    """
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{name} {file}: cannot be read: {error}") from error
    terms: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        pair = line.split("\t")
        if len(pair) != _SIDES or not all(term.strip() for term in pair):
            raise UsageError(f"{name} {file}: line {number} is not TERM, tab, TERM")
        terms[pair[0].strip()] = pair[1].strip()
    return terms


def _declare(group: argparse._ArgumentGroup, option: Option) -> None:
    how: dict[str, Any] = {"dest": option.name, "default": None}
    if option.kind == "switch":
        how["action"] = argparse.BooleanOptionalAction
    else:
        last_word = option.name.rpartition("_")[2].upper()
        how |= {"type": _TYPES.get(option.kind), "metavar": _METAVARS.get(option.kind, last_word)}
        if option.choices:
            how |= {"choices": option.choices, "metavar": None}
        if _repeats(option):
            how["action"] = "append"
    group.add_argument(flag(option.name), help=_help(option), **how)
    if option.choices:  # `score --alignments` had no value
        how |= {"nargs": "?", "const": option.choices[0]}
    for alias in option.aliases:
        group.add_argument(alias, help=argparse.SUPPRESS, **how)


def _repeats(option: Option) -> bool:
    """Whether a flag may be given more than once; a command's texts all have one prefix."""
    return option.is_list and option.items is not None


def _help(option: Option) -> str:
    text = option.help + _FILE * (option.kind == "terms") + "; may be repeated" * _repeats(option)
    # argparse fills in what follows a percent sign.
    return f"{text} (default: {option.default_text})".replace("%", "%%")
