"""Why a request is refused, in fields that programs read; the message is for people.

Every transport carries the fields. Triton's errors have only a message, so there they are JSON at
its end: `text 3 has 300 tokens, more than 254: shorten it {"kind":"too_large","text_index":3}`.
docs/status-codes.md describes them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

_BEGIN = ' {"kind":'
"""Where the fields begin in a message."""


class Refusal(NamedTuple):
    """Why a request is refused.

    Attributes:
        message: names the value and the fix. If it is about one text, it names it as `text 3`
            or `target 3`.
        kind: "invalid", "too_large", "language" (unknown, not detected or not translated),
            "unsupported" (by this model) or "unknown_option"; None: an older server did not send
            it. Later versions may add kinds.
        option: the option or input at fault, by its name in the table; None: none, or several.
        text_index: index of the only text at fault in its request; None: the request is at fault.
    """

    message: str
    kind: str | None = "invalid"
    option: str | None = None
    text_index: int | None = None

    @classmethod
    def of(cls, error: Exception) -> Self:
        """Returns the refusal that an exception stands for; only some exceptions have fields."""
        kind = getattr(error, "kind", "invalid")
        return cls(
            str(error), kind, getattr(error, "option", None), getattr(error, "text_index", None)
        )

    @classmethod
    def with_fields(cls, message: str, fields: Mapping[str, Any]) -> Self:
        """Returns a refusal with the fields in a JSON object; wrong and missing ones are None."""
        kind, option, index = (fields.get(name) for name in cls._fields[1:])
        return cls(
            message,
            kind if isinstance(kind, str) else None,
            option if isinstance(option, str) else None,
            index if type(index) is int and index >= 0 else None,
        )

    @classmethod
    def parse(cls, written: str) -> Self:
        """Returns the refusal in a message of Triton; the inverse of `str`."""
        message, begin, rest = written.rpartition(_BEGIN)
        try:
            fields = json.loads(begin + rest) if begin else None
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict):
            return cls(written, None)
        return cls.with_fields(message, fields)

    def fields(self) -> dict[str, Any]:
        """Returns the fields that have a value, without the message, for JSON."""
        return {
            name: value
            for name, value in zip(self._fields[1:], self[1:], strict=True)
            if value is not None
        }

    def moved(self, index: int) -> Self:
        """Returns the refusal of the same text at another index, in the message too."""
        message = self.message
        for subject in ("text", "target"):
            message = message.replace(f"{subject} {self.text_index}", f"{subject} {index}", 1)
        return self._replace(message=message, text_index=index)

    def details(self) -> str:
        """Returns the fields as JSON, for the end of a message; empty: none."""
        return "" if self.kind is None else json.dumps(self.fields(), separators=(",", ":"))

    def __str__(self) -> str:
        """Returns the message with the fields at its end."""
        return f"{self.message} {self.details()}".rstrip()


class Refused(Exception):
    """Base class of exceptions for refusals; see `Refusal` for the attributes."""

    def __init__(
        self,
        message: str,
        kind: str | None = "invalid",
        option: str | None = None,
        text_index: int | None = None,
    ) -> None:
        """Store the message and the fields."""
        super().__init__(message)
        self.kind, self.option, self.text_index = kind, option, text_index


class WrongType(Refused, TypeError):
    """An option has the wrong type, or its name is unknown."""


class WrongValue(Refused, ValueError):
    """An option has a value that is not allowed."""
