"""Typed access to the fields of a request, from JSON or a form."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.datastructures import UploadFile

from dragoman_gateway.core.errors import InvalidInput

_SWITCHES = {"0": False, "1": True, "false": False, "true": True}
_MOST_SHOWN = 40


class Fields:
    """Values by name; from a form, all values are texts.

    Each method raises `InvalidInput` for a value of the wrong type, or a repeated field of a form.
    A field that is absent or `null` counts as not given.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        """Store the values."""
        self._values = values

    def get(self, name: str) -> Any:
        """Returns the unchanged value; None: not given."""
        return self._values.get(name)

    def text(self, name: str) -> str | None:
        """Returns a text; None: not given."""
        value = self.get(name)
        if value is None:
            return value
        if isinstance(value, str):
            return _unicode(name, value)
        raise InvalidInput(f"{name}: give a text, not {_kind(value)}")

    def texts(self, name: str) -> list[str] | None:
        """Returns one text or several, as a list; None: not given."""
        value = self.get(name)
        if value is None:
            return None
        values = value if isinstance(value, list) else [value]
        for text in values:
            if not isinstance(text, str):
                raise InvalidInput(f"{name}: give a text or a list of texts, not {_kind(text)}")
            _unicode(name, text)
        return values

    def listed(self, name: str) -> list[str]:
        """Returns words, given as a list or separated by commas."""
        texts = self.texts(name) or ()
        return [word.strip() for text in texts for word in text.split(",") if word.strip()]

    def whole_number(self, name: str) -> int | None:
        """Returns an integer; None: not given."""
        value = self.get(name)
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        if isinstance(value, str) and len(value) < 20:
            with contextlib.suppress(ValueError):
                return int(value)
        raise InvalidInput(f"{name}: give a whole number, not {_shown(value)}")

    def switch(self, name: str) -> bool | None:
        """Returns a bool, given as `true` or `false`, or as 1 or 0; None: not given."""
        value = self.get(name)
        if value is None or isinstance(value, bool):
            return value
        written = str(value).lower() if isinstance(value, str | int) else ""
        if written in _SWITCHES:
            return _SWITCHES[written]
        raise InvalidInput(f"{name}: give true or false, not {_shown(value)}")

    def file(self, name: str) -> UploadFile | None:
        """Returns a file of a form; None: not given."""
        value = self.get(name)
        if value is None or isinstance(value, UploadFile):
            return value
        raise InvalidInput(
            f"{name}: send one file, as a part with a file name in multipart/form-data"
        )

    def object(self, name: str) -> Mapping[str, Any]:
        """Returns an object of JSON; empty: not given."""
        value = self.get(name)
        if value is None or isinstance(value, dict):
            return value or {}
        raise InvalidInput(f"{name}: give an object, not {_kind(value)}")

    def sections(self, name: str) -> Sequence[Fields] | None:
        """Returns a list of objects: `[{"a": ..}]` in JSON, `name[0].a=..` in a form, or None."""
        value = self.get(name)
        if value is None:
            value = self._dotted(name)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(section, dict) for section in value):
            raise InvalidInput(f"{name}: give a list of objects, not {_kind(value)}")
        return [Fields(section) for section in value]

    def _dotted(self, name: str) -> list[dict[str, Any]] | None:
        """Collects fields such as `name[0].a` and `name[0].b` into an object for each number."""
        sections: dict[str, dict[str, Any]] = {}
        for key, value in self._values.items():
            if key.startswith(f"{name}[") and "]." in key:
                number, _, field = key.removeprefix(f"{name}[").partition("].")
                sections.setdefault(number, {})[field] = value
        return list(sections.values()) or None


def _unicode(name: str, text: str) -> str:
    """Returns a text that can be encoded in UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{name}: has a lone surrogate, which is not a character") from None
    return text


def _kind(value: Any) -> str:
    kinds = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "a text",
        list: "a list",
        dict: "an object",
        type(None): "null",
        UploadFile: "a file",
    }
    return kinds.get(type(value), "a file" if isinstance(value, UploadFile) else "something else")


def _shown(value: Any) -> str:
    return repr(value[:_MOST_SHOWN]) if isinstance(value, str) else _kind(value)
