"""Markup as stand-off codes: its JSON, and invalid values."""

import json
from typing import Any

import pytest
from dragoman_options.markup import MOST_CODES, Code, Markup, PlacedCodes

TEXT = "Press the red button now."
"""The codes below are `red button` and, within it, `red`."""
NESTED = (Code(10, 20), Code(10, 13, 0))


@pytest.mark.parametrize(
    "markup",
    [
        Markup(),
        Markup(NESTED),
        Markup(NESTED, keep=((10, 13), (13, 20), (21, 24))),
        Markup((Code(0, 25), Code(0, 5, 0), Code(5, 5, 0), Code(5, 9, 0), Code(25, 25))),
    ],
)
def test_valid_markup_survives_json(markup: Markup) -> None:
    markup.check(TEXT)
    assert Markup.parse(str(markup)) == markup


def test_a_parent_and_both_lists_may_be_left_out() -> None:
    assert Markup.parse("{}") == Markup()
    assert Markup.parse('{"codes": [[10, 20]]}') == Markup((Code(10, 20, None),))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "[]: give {"),
        ({"code": []}, "{'code': []}: give {"),
        ({"codes": "ab"}, "codes is 'ab': give {"),
        ({"codes": [1]}, "codes[0] is 1: give {"),
        ({"codes": [[0, 1], [0, 1, 0, 0]]}, "codes[1] is [0, 1, 0, 0]: give {"),
        ({"codes": [[0, 1, True]]}, "codes[0] is [0, 1, True]: give {"),
        ({"codes": [[0, 1.5]]}, "codes[0] is [0, 1.5]: give {"),
        ({"keep": [[0, 1, None]]}, "keep[0] is [0, 1, None]: give {"),
    ],
)
def test_json_of_another_shape_is_refused(value: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011, the message is compared
        Markup.parse(json.dumps(value))
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("written", ["", "{", "[" * 100_000])
def test_invalid_json_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match=r"^not valid JSON: "):
        Markup.parse(written)


@pytest.mark.parametrize(
    ("markup", "message"),
    [
        (Markup((Code(0, 26),)), "code 0 is 0 to 26: give a part of 0 to 25"),
        (Markup((Code(-1, 2),)), "code 0 is -1 to 2: give a part of 0 to 25"),
        (Markup((Code(3, 2),)), "code 0 is 3 to 2: give a part of 0 to 25"),
        (
            Markup((Code(2, 5), Code(3, 6, 0))),
            "code 1 is 3 to 6: give a part of code 0, which ends at 5",
        ),
        (Markup((Code(2, 5), Code(1, 3, 0))), "code 1 begins at 1, before 2, "),
        (Markup((Code(2, 5), Code(4, 6))), "code 1 begins at 4, before 5, "),
        (Markup((Code(2, 5), Code(3, 4, 0), Code(3, 5, 0))), "code 2 begins at 3, before 4, "),
        (Markup((Code(2, 5, 0),)), "code 0 has the parent 0: give null"),
        (Markup((Code(2, 5, -1),)), "code 0 has the parent -1: give null"),
        (Markup((Code(2, 5), Code(6, 7), Code(3, 4, 0))), "code 2 has the parent 0: give null"),
        (Markup((Code(0, 1),) * (MOST_CODES + 1)), "10001 codes, more than 10000"),
        (Markup(keep=((3, 3),)), "keep 0 is 3 to 3: give a part of 0 to 25"),
        (Markup(keep=((3, 26),)), "keep 0 is 3 to 26: give a part of 0 to 25"),
        (Markup(keep=((3, 5), (4, 6))), "keep 1 begins at 4, before keep 0 ends"),
        (
            Markup(NESTED, keep=((8, 12),)),
            "keep 0 is 8 to 12: a code begins or ends within it, at 10",
        ),
        (Markup(NESTED, keep=((10, 20),)), "keep 0 is 10 to 20: a code begins or ends within it"),
    ],
)
def test_markup_that_does_not_fit_the_text_is_refused(markup: Markup, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011, the message is compared
        markup.check(TEXT)
    assert str(caught.value).startswith(message)


def test_a_deep_tree_is_checked() -> None:
    deep = [Code(0, 25), *(Code(0, 25, parent) for parent in range(MOST_CODES - 1))]
    Markup(tuple(deep)).check(TEXT)


def test_placed_codes_survive_json() -> None:
    placed = PlacedCodes(((3, 7), (3, 3)), uncertain=1)
    assert str(placed) == '{"codes": [[3, 7], [3, 3]], "uncertain": 1}'
    assert PlacedCodes.parse(str(placed)) == placed
