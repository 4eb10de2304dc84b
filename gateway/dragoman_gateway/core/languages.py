"""Languages and directions that the server translates, and how callers may write their codes."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from babel import Locale, UnknownLocaleError
from dragoman_client import ServerInfo
from dragoman_options.languages import fold_language

from dragoman_gateway.core.errors import InvalidInput


@dataclass(frozen=True)
class Languages:
    """What the server translates.

    Attributes:
        codes: of its languages.
        directions: pairs of source and target language.
        direct: those without a pivot language, in which glossaries can be used.
    """

    codes: tuple[str, ...]
    directions: frozenset[tuple[str, str]] = field(default_factory=frozenset)
    direct: frozenset[tuple[str, str]] = field(default_factory=frozenset)

    @classmethod
    def of(cls, info: ServerInfo) -> Self:
        """As the server tells."""
        direct = frozenset((one.source, one.target) for one in info.pairs if one.via is None)
        return cls(info.languages, frozenset(info.directions), direct)

    @property
    def sources(self) -> list[str]:
        """Codes of those that it translates from."""
        return [code for code in self.codes if any(src == code for src, _ in self.directions)]

    @property
    def targets(self) -> list[str]:
        """Codes of those that it translates into."""
        return [code for code in self.codes if any(tgt == code for _, tgt in self.directions)]

    def targets_of(self, src: str) -> list[str]:
        """Codes of those that it translates a language into."""
        return [code for code in self.codes if (src, code) in self.directions]

    def find(self, written: str, among: Sequence[str], what: str) -> str:
        """The code of a language, however it is written; see `fold_language`.

        Args:
            written: by a caller.
            among: codes that fit.
            what: it is, for the message.

        Raises:
            InvalidInput: there is no such language.
        """
        if (found := fold_language(written, among)) is None:
            raise InvalidInput(f"{what} {written[:40]!r} is not supported: give {', '.join(among)}")
        return found


@functools.cache
def name_of(code: str, reader: str = "en") -> str:
    """Name of a language.

    Args:
        code: of the language.
        reader: code of the language to write the name in.

    Returns:
        The name; the code if there is no name for it.
    """
    try:
        name = Locale.parse(code, sep="-").get_display_name(reader)
    except (UnknownLocaleError, ValueError):
        return code
    return name or code
