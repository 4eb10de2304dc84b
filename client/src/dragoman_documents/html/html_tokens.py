"""Splits HTML into tokens with their characters, like browsers do.

The tokenizer is turbohtml's, which follows the standard. It normalizes line ends and drops the tag
`</>`; this module restores both, so that no character of the document is lost.

Source: https://html.spec.whatwg.org/multipage/parsing.html#tokenization
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from typing import Any, Literal

MOST_TOKEN_CHARACTERS = 1 << 23
"""A longer tag, comment or text without a tag is refused, because it is kept in memory."""

_MOST_KEPT_CHARACTERS = 1 << 18
"""The tokenizer keeps all that it has read: after so many characters it begins again."""

Kind = Literal["start", "end", "text", "other"]

_LINE_END = re.compile(r"\r\n?|\n")
_IGNORED = "</>"


@dataclass(slots=True)
class HtmlToken:
    """A token of a document.

    Attributes:
        kind: `text` may be split, and each character reference is a separate token; `other` is the
            rest, such as comments and the document type.
        raw: the characters of the token.
        name: name of a tag, in lower case.
        is_void: whether a tag is written as an empty one, `<a/>`.
    """

    kind: Kind
    raw: str
    name: str = ""
    is_void: bool = False


class HtmlTokens:
    """Reads a document in chunks."""

    def __init__(self) -> None:
        """Prepare a tokenizer."""
        try:
            from turbohtml import Tokenizer, TokenType
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "HTML needs turbohtml: pip install 'dragoman-client[documents]'", name="turbohtml"
            ) from error
        self._tokenizer = Tokenizer(resolve_references=False, capture_source=True)
        self._kinds: dict[Any, Kind] = {
            TokenType.TEXT: "text",
            TokenType.CHARACTER_REFERENCE: "text",
            TokenType.START_TAG: "start",
            TokenType.END_TAG: "end",
        }
        self._kept_characters = 0
        """How many the tokenizer has read since its begin."""
        self._unread = ""
        """Text passed to the tokenizer, with line feeds as line ends."""
        self._line_ends: deque[str] = deque()
        """The original line ends in the document."""
        self._held = ""
        """A carriage return at the end of a chunk, since a line feed may follow."""

    def feed(self, text: str) -> list[HtmlToken]:
        """Read the next chunk.

        Returns:
            The complete tokens.

        Raises:
            ValueError: a token is too long.
        """
        text = self._held + text
        self._held = "\r" if text.endswith("\r") else ""
        text = text.removesuffix("\r")
        tokens = []
        self._kept_characters += len(text)
        if self._kept_characters > _MOST_KEPT_CHARACTERS:
            end = text.find(">", text.rfind("</")) + 1
            tokens, text = self._read_part(text[:end]), text[end:]
            # Behind an end tag its state is that of the begin.
            if tokens and tokens[-1].kind == "end" and not self._unread:
                self._tokenizer.reset()
                self._kept_characters = len(text)
        tokens += self._read_part(text)
        if len(self._unread) > MOST_TOKEN_CHARACTERS:
            raise ValueError(
                "a tag, comment, script or text without a tag of more than "
                f"{MOST_TOKEN_CHARACTERS} characters"
            )
        return tokens

    def close(self) -> list[HtmlToken]:
        """Returns the remaining tokens."""
        tokens = self._read_part(self._held)
        self._tokenizer.close()
        tokens += self._read(self._tokenizer)
        if self._unread:
            tokens.append(HtmlToken("other", self._as_written(self._unread)))
        return tokens

    def _read_part(self, text: str) -> list[HtmlToken]:
        return self._read(self._tokenizer.feed(self._normal(text)))

    def _normal(self, text: str) -> str:
        self._line_ends += _LINE_END.findall(text)
        normal = text.replace("\r\n", "\n").replace("\r", "\n")
        self._unread += normal
        return normal

    def _read(self, tokens: Any) -> list[HtmlToken]:
        html_tokens: list[HtmlToken] = []
        position = 0
        parts: list[tuple[int, HtmlToken]] = []
        for token in tokens:
            kind: Kind = self._kinds.get(token.type, "other")
            written = token.data if token.source is None else token.source
            while (size := self._ignored_behind(position, written)) is not None:
                if size:
                    parts.append((size, HtmlToken(kind, "")))
                parts.append((len(_IGNORED), HtmlToken("other", "")))
                position += size + len(_IGNORED)
                written = written[size:]
            name = token.tag if kind in ("start", "end") else ""
            parts.append((len(written), HtmlToken(kind, "", name, bool(token.self_closing))))
            position += len(written)
        begin = 0
        for size, html_token in parts:
            html_token.raw = self._as_written(self._unread[begin : begin + size])
            begin += size
            html_tokens.append(html_token)
        self._unread = self._unread[begin:]
        return html_tokens

    def _ignored_behind(self, position: int, written: str) -> int | None:
        """Returns how many characters of a token precede a tag that the tokenizer dropped."""
        index = self._unread.find(_IGNORED, position, position + len(written) + len(_IGNORED))
        while index >= 0:
            size = index - position
            if size >= len(written):
                return None
            if not written.startswith(_IGNORED, size):
                return size
            index = self._unread.find(_IGNORED, index + 1, position + len(written) + len(_IGNORED))
        return None

    def _as_written(self, normal: str) -> str:
        """Returns the next characters with the document's line ends."""
        if "\n" not in normal:
            return normal
        return re.sub("\n", lambda _: self._line_ends.popleft(), normal)
