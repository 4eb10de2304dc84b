"""Translation options as command-line flags, from the table of options."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, cast

from dragoman.kernel.errors import UsageError

if TYPE_CHECKING:
    from dragoman_options.arguments import OptionArguments
    from dragoman_options.option import Kind, Option

_TYPES: dict[Kind, type] = {"whole number": int, "number": float}
_METAVARS: dict[Kind, str] = {
    "texts": "TEXT",
    "terms": "JSON",
    "whole number": "N",
    "number": "X",
}
_FILE = '; JSON such as {"tea": "Tee"}, or a file of CSV, TSV, TBX or JSON'


def configure_options(
    parser: argparse.ArgumentParser, model: str = "translate", names: Collection[str] = ()
) -> None:
    """Declare flags for the options that a model takes; `names` limits them, none means all."""
    from dragoman_options.table import OPTIONS, OUTPUTS, takes

    group = parser.add_argument_group("translation options", "see docs/options.md")
    for name in names or OPTIONS:
        output = OUTPUTS.get(OPTIONS[name].output or "")
        is_of_text = OPTIONS[name].kind == "markup"  # offsets, which nobody types by hand
        if (
            not is_of_text
            and takes(model, OPTIONS[name])
            and not (output and model in output.always)
        ):
            _declare(group, OPTIONS[name])


def given_options(arguments: argparse.Namespace) -> OptionArguments:
    """Returns the options of `configure_options` that were given.

    Raises:
        UsageError: a glossary cannot be read, or is not valid.
    """
    from dragoman_options.table import OPTIONS

    given = {name: getattr(arguments, name, None) for name in OPTIONS}
    languages = given["source_language"], given["target_language"]
    for name, value in given.items():
        if OPTIONS[name].kind == "terms" and value is not None:
            try:
                given[name] = OPTIONS[name].read(read_terms(value, flag(name), languages), {})
            except (TypeError, ValueError) as error:
                raise UsageError(str(error)) from error
    return cast("OptionArguments", {k: v for k, v in given.items() if v is not None})


def flag(name: str) -> str:
    """Returns the flag of an option."""
    return f"--{name.replace('_', '-')}"


def outputs_given(options: Collection[str]) -> list[str]:
    """Returns the flags that request outputs which only JSON can show."""
    from dragoman_options.table import OPTIONS

    several = "num_return_sequences"
    return [flag(name) for name in options if OPTIONS[name].output or name == several]


def read_terms(
    given: str, name: str, languages: tuple[str | None, str | None] = (None, None)
) -> Any:
    """Returns target terms by source term.

    Args:
        given: a JSON object, or the path of a file: CSV, TSV or JSON in UTF-8, or TBX.
        name: the flag, for messages.
        languages: source and target language in TBX; None: the first ones.

    Returns:
        The parsed value; `Option.read` checks that it is a mapping of texts.

    Raises:
        UsageError: the file cannot be read, or is not a glossary.
    """
    from dragoman_client import parse_glossary, read_glossary

    is_object = given.lstrip().startswith("{")
    try:
        return parse_glossary(given) if is_object else read_glossary(given, languages=languages)
    except OSError as error:
        raise UsageError(f"{name} {given}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{name}: {error}" if is_object else f"{name} {error}") from error


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
    """Whether a flag may be repeated. A prefix may not: one applies to all texts of a command."""
    return option.is_list and option.items is not None


def _help(option: Option) -> str:
    text = option.help + _FILE * (option.kind == "terms") + "; may be repeated" * _repeats(option)
    # argparse expands a `%`.
    return f"{text} (default: {option.default_text})".replace("%", "%%")
