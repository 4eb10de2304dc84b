"""The table of options, and what must say the same as it."""

from __future__ import annotations

from typing import get_args

import pytest
from dragoman_options.__main__ import table
from dragoman_options.arguments import AlignmentForm, OptionArguments, ScoringArguments
from dragoman_options.option import Option
from dragoman_options.table import OPTIONS, OUTPUTS

from dragoman.kernel.manifest import MOST_LENGTH_PENALTY
from tests.conftest import REPOSITORY


def test_the_documentation_has_the_table() -> None:
    text = (REPOSITORY / "docs" / "options.md").read_text(encoding="utf-8")
    assert table() in text, "write the output of `python -m dragoman_options` into docs/options.md"


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


def test_the_typed_arguments_are_the_options() -> None:
    written = {
        "text": "str",
        "texts": "str | Sequence[str]",
        "terms": "Mapping[str, str]",
        "whole number": "int",
        "number": "float",
        "switch": "bool",
    }
    expected = {
        one.name: ("AlignmentForm" if one.choices else written[one.kind]) + " | None"
        for one in OPTIONS.values()
    }
    assert hints(OptionArguments) == expected
    assert set(hints(ScoringArguments)) == {one.name for one in OPTIONS.values() if one.scores}
    (form,) = (one for one in OPTIONS.values() if one.choices)
    assert form.choices == get_args(AlignmentForm)


def hints(arguments: type) -> dict[str, str]:
    """The types of keyword arguments as they are written."""
    return {name: hint.__forward_arg__ for name, hint in arguments.__annotations__.items()}
