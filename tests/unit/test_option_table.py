"""The table of options, and everything that must agree with it."""

from __future__ import annotations

import argparse
from typing import Any, cast, get_args

import pytest
from dragoman_options.__main__ import option_table, output_table
from dragoman_options.arguments import AlignmentForm, OptionArguments, ScoringArguments
from dragoman_options.option import Option
from dragoman_options.table import OPTIONS, OUTPUTS, check

from dragoman.commands.shared.options import configure_options, flag
from dragoman.kernel.manifest import FEWEST_SENTENCE_TOKENS, MOST_LENGTH_PENALTY
from tests.conftest import REPOSITORY


def test_the_documentation_has_the_tables() -> None:
    text = (REPOSITORY / "docs" / "options.md").read_text(encoding="utf-8")
    for table in (option_table(), output_table()):
        assert table in text, "write what `python -m dragoman_options` prints into docs/options.md"


def test_former_flags_are_accepted() -> None:
    """The help does not list them."""
    parser = argparse.ArgumentParser()
    configure_options(parser)
    help_text = parser.format_help()
    words = {
        "terms": "file",
        "text": "hard",
        "texts": "red",
        "markup": "",
        "number": "0.5",
        "whole number": "3",
    }
    for option in OPTIONS.values():
        value = [] if option.kind == "switch" else [words[option.kind]]
        for alias in option.aliases:
            assert parser.parse_args([alias, *value]) == parser.parse_args(
                [flag(option.name), *value]
            )
            assert f"{alias} " not in help_text
    assert parser.parse_args(["--alignments"]).return_alignments == "hard"


def test_a_percent_sign_in_a_help_text_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    option = Option("share", "number", "at most 50% of it", unset="100%")
    monkeypatch.setitem(cast(dict[str, Option], OPTIONS), "share", option)
    parser = argparse.ArgumentParser()
    configure_options(parser)
    assert "at most 50% of it (default: 100%)" in parser.format_help()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"length_penalty": 10**400}, "length_penalty is too large"),
        ({"beam_width": 10**5000}, "beam_width is too large"),
        ({"max_tokens": 3 * 10**9}, "max_tokens is 3000000000: give 1 to 2147483647"),
        ({"beam_width": 0}, "beam_width is 0: give 1 to 2147483647"),
        ({"suppress": ["a", "\ud800"]}, "suppress contains half of a character"),
        ({"prefix": b"a"}, "prefix is b'a': give text"),
        ({"beam_widht": 4}, "unknown option 'beam_widht': did you mean beam_width?"),
        ({"": 1}, "unknown option ''"),
        (
            {"return_alternatives": True, "num_return_sequences": 1},
            "return_alternatives: only with num_return_sequences above 1",
        ),
        (
            {"prefix": "a", "max_sentence_tokens": 9},
            "max_sentence_tokens: only with split_sentences",
        ),
        ({"beam_width": 4, "top_k": 4}, "top_k: turns on sampling, give beam_width 1 or none"),
    ],
    ids=lambda parameter: parameter if isinstance(parameter, str) else "",
)
def test_impossible_options_are_refused_in_one_line(given: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        check(given)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("option", OPTIONS.values(), ids=OPTIONS.keys())
def test_an_option_names_what_exists(option: Option) -> None:
    others = (*option.not_with, option.only_with, option.at_most)
    assert all(other in OPTIONS for other in others if other is not None)
    assert option.output is None or option.output in OUTPUTS
    assert option.help[0].islower()
    assert not option.help.endswith(".")
    if option.default is not None:
        assert option.read(option.default, {}) == option.default
    else:
        assert option.unset


def test_the_manifest_may_have_any_length_penalty_that_a_request_may() -> None:
    range_ = OPTIONS["length_penalty"].range
    assert range_ is not None
    assert range_.most == MOST_LENGTH_PENALTY
    range_ = OPTIONS["max_sentence_tokens"].range
    assert range_ is not None
    assert range_.least == FEWEST_SENTENCE_TOKENS


def test_the_typed_arguments_are_the_options() -> None:
    written = {
        "text": "str",
        "texts": "str | Sequence[str]",
        "terms": "Mapping[str, str]",
        "markup": "Markup | Mapping[str, Any] | Sequence[Markup | Mapping[str, Any] | None]",
        "whole number": "int",
        "number": "float",
        "switch": "bool",
    }
    expected = {
        option.name: ("AlignmentForm" if option.choices else written[option.kind]) + " | None"
        for option in OPTIONS.values()
    }
    assert hints(OptionArguments) == expected
    assert set(hints(ScoringArguments)) == {
        option.name for option in OPTIONS.values() if option.scores
    }
    (form,) = (option for option in OPTIONS.values() if option.choices)
    assert form.choices == get_args(AlignmentForm)


def hints(arguments: type) -> dict[str, str]:
    """The types of keyword arguments as they are written."""
    return {name: hint.__forward_arg__ for name, hint in arguments.__annotations__.items()}
