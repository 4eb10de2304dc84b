"""What an option of a request is: its type, its range, and what goes with it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from reprlib import repr as brief
from typing import Any, Literal

from dragoman_options import markup
from dragoman_options.markup import Markup

Kind = Literal["text", "texts", "terms", "markup", "whole number", "number", "switch"]
"""`texts` are one or several, `terms` target terms by source term, `markup` one for each text."""
Datatype = Literal["BOOL", "BYTES", "FP32", "INT32", "INT64"]
"""Triton's names of tensors' types."""
Legs = Literal["both", "last", "none"]
"""Which legs of a translation through a pivot language have an option; with none it is refused."""
Limits = Mapping[str, float]
"""A model's numbers by name, as ranges name them."""

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
    """What a number may be: `least` to `most`, or with `above` more than `least`.

    `most` is a number, or the name of one of the model's `Limits`.
    """

    least: float
    most: float | str
    above: bool = False


@dataclass(frozen=True)
class Items:
    """How many texts or terms there may be, none of them empty, and of how many characters.

    `name` is what one of them is, for messages.
    """

    most: int
    characters: int
    name: str


@dataclass(frozen=True)
class Option:
    """An option of a request.

    Attributes:
        name: in every API, and of its tensor.
        kind: of its value.
        help: what it does, in one line.
        range: of a number.
        items: of texts and terms.
        choices: all that a text may be.
        default: what it is where a request does not say; None: see `unset`.
        unset: in words, what happens where a request does not say.
        source: where it comes from, in Markdown.
        streams: whether the model `translate_stream` takes it.
        scores: whether the model `score` takes it.
        output: the output that it asks for.
        not_with: options that it excludes.
        needs_beam: whether it is refused with a `beam_width` of 1.
        only_with: an option without which it cannot be given.
        at_most: an option whose number it must not exceed.
        legs: which legs of a translation through a pivot language have it.
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
        """Triton's name of its tensor's type."""
        most = self.range.most if self.range else 0
        is_long = isinstance(most, int) and most > _MOST_INT32
        return "INT64" if is_long else _DATATYPES[self.kind]

    @property
    def default_text(self) -> str:
        """What it is where a request does not say, in words."""
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
        """A value as the option's type: a text, a tuple of texts, a mapping, a number or a bool.

        Markup becomes a tuple of its JSON for each text, empty where a text has none.

        Args:
            value: of a request. Terms and markup may be written as JSON objects.
            limits: of the model; a bound that is not among them is not checked.

        Raises:
            TypeError: a value of another type; True is no number.
            ValueError: a value out of range.
        """
        found = self._typed(value)
        if self.range is not None:
            self._check_range(found, limits)
        elif self.kind == "text":
            self._check_text(found)
        elif self.kind == "texts":
            self._check_items(found, len(found))
        elif self.kind == "terms":
            self._check_items((*found, *found.values()), len(found))
        return found

    def describe(self, limits: Limits) -> dict[str, Any]:
        """The option as JSON has it, with the bounds of a model; see `info`."""
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
        """The elements of its tensor [1, N], of a value that `read` returned."""
        if self.kind == "terms":
            return [json.dumps(dict(value), ensure_ascii=False)]
        return list(value) if self.is_list else [value]

    def _typed(self, value: Any) -> Any:
        if self.kind == "switch":
            is_right = type(value) is bool
        elif self.kind == "text":
            is_right = isinstance(value, str)
        elif self.kind == "texts":
            value = (value,) if isinstance(value, str) else value
            is_right = isinstance(value, Sequence) and not isinstance(value, bytes | bytearray)
            is_right = is_right and all(isinstance(one, str) for one in value)
            value = tuple(value) if is_right else value
        elif self.kind == "markup":
            return self._markups(value)
        elif self.kind == "terms":
            value = self._parsed(value) if isinstance(value, str) else value
            is_right = isinstance(value, Mapping)
            is_right = is_right and all(
                isinstance(one, str) for pair in value.items() for one in pair
            )
        else:
            kinds = int if self.kind == "whole number" else int | float
            is_right = isinstance(value, kinds) and not isinstance(value, bool)
            # Python can neither print nor convert every int.
            if isinstance(value, int) and abs(value) > _MOST_INT64:
                raise ValueError(f"{self.name} is too large")
            value = float(value) if is_right and self.kind == "number" else value
        if not is_right:
            raise TypeError(f"{self.name} is {brief(value)}: give {_EXPECTED[self.kind]}")
        return value

    def _markups(self, value: Any) -> tuple[str, ...]:
        is_one = isinstance(value, str | Mapping | Markup)
        if not is_one and not (isinstance(value, Sequence) and not isinstance(value, bytes)):
            raise TypeError(f"{self.name} is {brief(value)}: give {_EXPECTED[self.kind]}")
        return tuple(
            self._markup(index, one) for index, one in enumerate([value] if is_one else value)
        )

    def _markup(self, index: int, value: Any) -> str:
        """The markup of a text as JSON; empty if it has none."""
        if not value:
            return ""
        try:
            if isinstance(value, str):
                value = Markup.parse(value)
            return str(value if isinstance(value, Markup) else Markup.of(value))
        except ValueError as error:
            raise ValueError(f"{self.name} of text {index}: {error}") from error

    def _parsed(self, written: str) -> Any:
        try:
            return json.loads(written)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{self.name} is not valid JSON: {error}") from error

    def _check_range(self, value: float, limits: Limits) -> None:
        assert self.range is not None
        least, most = self.range.least, self.range.most
        if isinstance(most, str):
            most = limits.get(most, _MOST_INT32)
        if least <= value <= most and not (self.range.above and value == least):
            return
        lower = f"more than {least:g}" if self.range.above else f"{least:g}"
        raise ValueError(f"{self.name} is {value}: give {lower} to {most}")

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


@dataclass(frozen=True)
class Output:
    """An output of the models.

    Attributes:
        name: of its tensor.
        datatype: Triton's name of its type.
        help: what it holds, in one line.
        models: those that have it.
        always: those of them that send it unasked; the others where the option whose `output` it is
            asks for it.
    """

    name: str
    datatype: Datatype
    help: str
    models: tuple[str, ...]
    always: tuple[str, ...] = ()


def encode(text: str, what: str) -> bytes:
    """UTF-8 of a text.

    Args:
        text: any `str`.
        what: it is, for messages.

    Raises:
        ValueError: it contains a surrogate, which UTF-8 cannot write.
    """
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{what} contains half of a character (a lone surrogate) at character {error.start}"
        ) from None
