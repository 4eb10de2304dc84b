"""Definition of a request option: its type, its range, and its rules."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from reprlib import Repr
from typing import Any, Literal

from dragoman_options import markup
from dragoman_options.markup import Markup
from dragoman_options.output import Datatype
from dragoman_options.refusal import WrongValue

Kind = Literal["text", "texts", "terms", "markup", "whole number", "number", "switch"]
"""`texts`: one or several; `terms`: target terms by source term; `markup`: one for each text."""
Legs = Literal["both", "last", "none"]
"""To which legs of a pivot translation an option applies; `none`: it is refused there."""
Limits = Mapping[str, float]
"""A model's limits by name; ranges refer to these names."""


class _Brief(Repr):
    """Shortens values for messages; writes true, false and null as in JSON."""

    def repr_bool(self, value: bool, _level: int) -> str:
        return str(value).lower()

    def repr_NoneType(self, _value: None, _level: int) -> str:  # noqa: N802
        return "null"


brief = _Brief().repr
_MOST_INT32 = 2**31 - 1
_MOST_INT64 = 2**63 - 1
_DATATYPES: Mapping[Kind, Datatype] = {
    "text": "BYTES",
    "texts": "BYTES",
    "terms": "BYTES",
    "markup": "BYTES",
    "whole number": "INT32",
    "number": "FP32",
    "switch": "BOOL",
}
_EXPECTED: Mapping[Kind, str] = {
    "text": "text",
    "texts": "text, or a sequence of texts",
    "terms": 'terms, such as {"tea": "Tee"}',
    "markup": "markup for each text, such as " + markup.SHAPE,
    "whole number": "a whole number",
    "number": "a number",
    "switch": "true or false",
}


@dataclass(frozen=True)
class Range:
    """The range of a number: `least` to `most`, or with `above` more than `least`.

    `most` is a number, or the name of one of the model's `Limits`. The message for a smaller
    number ends with `advice`.
    """

    least: float
    most: float | str
    above: bool = False
    advice: str = ""


@dataclass(frozen=True)
class Items:
    """The maximum number of texts or terms, and of characters of one; none may be empty.

    `name` is the word for one of them in messages.
    """

    most: int
    characters: int
    name: str


@dataclass(frozen=True)
class Option:
    """An option of a request.

    Attributes:
        name: name in every API, and of its tensor.
        kind: type of its value.
        help: what it does, in one line.
        range: range of a number.
        items: limits of texts and terms.
        choices: allowed values of a text.
        default: value if a request does not set it; None: see `unset`.
        unset: behaviour if a request does not set it, in words.
        source: a reference, in Markdown.
        streams: whether the model `translate_stream` accepts it.
        scores: whether the model `score` accepts it.
        output: the output that it requests.
        not_with: options that cannot be combined with it.
        needs_beam: whether it is refused with a `beam_width` of 1.
        only_with: an option that it requires.
        at_most: an option whose value it must not exceed.
        legs: to which legs of a pivot translation it applies.
        aliases: former flags of the command line.
    """

    name: str
    kind: Kind
    help: str
    _: KW_ONLY
    range: Range | None = None
    items: Items | None = None
    choices: tuple[str, ...] = ()
    default: Any = None
    unset: str = ""
    source: str = ""
    streams: bool = True
    scores: bool = False
    output: str | None = None
    not_with: tuple[str, ...] = ()
    needs_beam: bool = False
    only_with: str | None = None
    at_most: str | None = None
    legs: Legs = "both"
    aliases: tuple[str, ...] = ()

    @property
    def datatype(self) -> Datatype:
        """Triton's data type of its tensor."""
        most = self.range.most if self.range else 0
        is_long = isinstance(most, int) and most > _MOST_INT32
        return "INT64" if is_long else _DATATYPES[self.kind]

    @property
    def default_text(self) -> str:
        """The value or behaviour if a request does not set it, in words."""
        if self.default is None:
            return self.unset
        if isinstance(self.default, bool):
            return str(self.default).lower()
        return f"{self.default:g}" if isinstance(self.default, int | float) else "none"

    @property
    def is_list(self) -> bool:
        """Whether its tensor may have several elements."""
        return self.kind in ("texts", "markup")

    def read(self, value: Any, limits: Limits) -> Any:
        """Convert a value to the option's type: str, tuple of str, mapping, number or bool.

        Markup becomes a tuple with that of each text, None where a text has none.

        Args:
            value: value in a request. Terms and markup may be JSON.
            limits: limits of the model; missing ones are not checked.

        Raises:
            TypeError: the value has the wrong type; True is not a number.
            ValueError: the value is out of range.
        """
        typed = self._typed(value)
        if self.range is not None:
            self._check_range(typed, limits)
        elif self.kind == "text":
            self._check_text(typed)
        elif self.kind == "texts":
            self._check_items(typed, len(typed))
        elif self.kind == "terms":
            self._check_items((*typed, *typed.values()), len(typed))
        return typed

    def describe(self, limits: Limits) -> dict[str, Any]:
        """Returns a JSON description of the option with a model's limits, for the model `info`."""
        described: dict[str, Any] = {
            "name": self.name,
            "type": self.kind,
            "datatype": self.datatype,
            "help": self.help,
            "default": self.default,
        }
        if self.range is not None:
            most = self.range.most
            described["range"] = {
                "least": self.range.least,
                "most": limits.get(most) if isinstance(most, str) else most,
                "above": self.range.above,
            }
        if self.items is not None:
            described["items"] = {"most": self.items.most, "characters": self.items.characters}
        if self.choices:
            described["choices"] = self.choices
        return described | {
            "not_with": self.not_with,
            "needs_beam": self.needs_beam,
            "only_with": self.only_with,
            "at_most": self.at_most,
            "legs": self.legs,
        }

    def elements(self, value: Any) -> list[Any]:
        """Returns the elements of its tensor [1, N] for a value from `read`."""
        if self.kind == "terms":
            return [json.dumps(dict(value), ensure_ascii=False)]
        if self.kind == "markup":
            return ["" if markup is None else str(markup) for markup in value]
        return list(value) if self.is_list else [value]

    def _typed(self, value: Any) -> Any:
        if self.kind == "switch":
            is_right = type(value) is bool
        elif self.kind == "text":
            is_right = isinstance(value, str)
        elif self.kind == "texts":
            value = (value,) if isinstance(value, str) else value
            is_right = isinstance(value, Sequence) and not isinstance(value, bytes | bytearray)
            is_right = is_right and all(isinstance(text, str) for text in value)
            value = tuple(value) if is_right else value
        elif self.kind == "markup":
            return self._markups(value)
        elif self.kind == "terms":
            value = self._parsed(value) if isinstance(value, str) else value
            is_right = isinstance(value, Mapping)
            is_right = is_right and all(
                isinstance(term, str) for pair in value.items() for term in pair
            )
        else:
            kinds = int if self.kind == "whole number" else int | float
            is_right = isinstance(value, kinds) and not isinstance(value, bool)
            # Python cannot print or convert arbitrarily large integers.
            if isinstance(value, int) and abs(value) > _MOST_INT64:
                raise ValueError(f"{self.name} is too large")
            value = float(value) if is_right and self.kind == "number" else value
        if not is_right:
            expected = " or ".join(self.choices) or _EXPECTED[self.kind]
            raise TypeError(f"{self.name} is {brief(value)}: give {expected}")
        return value

    def _markups(self, value: Any) -> tuple[Markup | None, ...]:
        is_one = isinstance(value, str | Mapping | Markup)
        if not is_one and not (isinstance(value, Sequence) and not isinstance(value, bytes)):
            raise TypeError(f"{self.name} is {brief(value)}: give {_EXPECTED[self.kind]}")
        return tuple(
            self._markup(index, text_markup)
            for index, text_markup in enumerate([value] if is_one else value)
        )

    def _markup(self, index: int, value: Any) -> Markup | None:
        """Returns the markup of a text; None if it has none."""
        if isinstance(value, Markup):
            return value
        if not value:
            return None
        try:
            return Markup.parse(value) if isinstance(value, str) else Markup.of(value)
        except ValueError as error:
            raise WrongValue(
                f"{self.name} of text {index}: {error}", option=self.name, text_index=index
            ) from error

    def _parsed(self, written: str) -> Any:
        try:
            return json.loads(written)
        except (ValueError, RecursionError) as error:
            raise ValueError(
                f'{self.name} is not valid JSON: give an object such as {{"tea": "Tee"}} ({error})'
            ) from error

    def _check_range(self, value: float, limits: Limits) -> None:
        assert self.range is not None
        least, most = self.range.least, self.range.most
        if isinstance(most, str):
            most = limits.get(most, _MOST_INT32)
        if least <= value <= most and not (self.range.above and value == least):
            return
        lower = f"more than {least:g}" if self.range.above else f"{least:g}"
        advice = f"; {self.range.advice}" if self.range.advice and value < least else ""
        raise ValueError(f"{self.name} is {value}: give {lower} to {most}{advice}")

    def _check_text(self, text: str) -> None:
        if self.choices and text not in self.choices:
            raise ValueError(f"{self.name} is {brief(text)}: give {' or '.join(self.choices)}")
        if not text:
            raise ValueError(f"{self.name} is empty")
        encode(text, self.name)

    def _check_items(self, texts: Sequence[str], count: int) -> None:
        for text in texts:
            encode(text, self.name)
        if self.items is None:
            return
        if count > self.items.most:
            what = f"{self.items.name}s"
            raise ValueError(f"{self.name} has {count} {what}, more than {self.items.most}")
        for text in texts:
            if not text.strip():
                raise ValueError(f"{self.name} has an empty {self.items.name}")
            if len(text) > self.items.characters:
                raise ValueError(
                    f"{self.name}: {brief(text)} has more than {self.items.characters} characters"
                )


def encode(text: str, what: str) -> bytes:
    """Encode a text in UTF-8.

    Args:
        text: any `str`.
        what: what to call the text in messages.

    Raises:
        ValueError: the text contains a lone surrogate, which UTF-8 cannot encode.
    """
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{what} contains half of a character (a lone surrogate) at character {error.start}"
        ) from None
