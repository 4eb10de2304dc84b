"""Requests to a reader's process, and their framing.

A request is its size and its limit of processor time, each in 4 bytes, and MessagePack. A reply is
its size in 4 bytes, a status of one byte, and MessagePack. The gateway knows the type of a reply by
its request.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import msgspec
from dragoman_documents.core.suggestions import Suggestion
from dragoman_documents.memory.pairs import Pair

from dragoman_gateway.reader.documents import DocumentFormat
from dragoman_gateway.reader.marked import Answer, TextForm

REQUEST_HEAD: Final = struct.Struct("!II")
REPLY_HEAD: Final = struct.Struct("!IB")


class Status(IntEnum):
    """How a request ended."""

    DONE = 0
    INVALID = 1
    """The input does not have its format; the reply is a `Refusal`."""
    NO_MEMORY = 2
    FAULT = 3
    """An error of the reader; the reply is its class and its traceback, without its message."""


class Inspect(msgspec.Struct, tag=True):
    """Read and check a whole document; the reply is `DocumentFacts`."""

    path: str
    name: str
    options: dict[str, Any]


class Open(msgspec.Struct, tag=True):
    """Open a document that was inspected, and skip portions; the reply is None."""

    path: str
    form: DocumentFormat
    options: dict[str, Any]
    skip: int


class NextPortion(msgspec.Struct, tag=True):
    """Read the next portion of the open document; the reply is a `Portion` or None."""


class WritePortion(msgspec.Struct, tag=True):
    """Write the first portion that is not written yet with its translations; the reply is bytes.

    It has suggestions for each text of `Portion.suggestible`, or for none.
    """

    answers: list[Answer | None]
    suggestions: list[list[Suggestion]]


class Join(msgspec.Struct, tag=True):
    """Put a package together from its written portions, which a file has; the reply is None."""

    path: str
    portions: str


class NextPiece(msgspec.Struct, tag=True):
    """Take the next piece of the package that is put together; the reply is bytes or None."""


class ReadTexts(msgspec.Struct, tag=True):
    """Read texts with markup; the reply is a list of `ReadText`."""

    texts: list[str]
    form: TextForm


class WriteTexts(msgspec.Struct, tag=True):
    """Write texts with the translations of their segments; the reply is a list of texts."""

    texts: list[str]
    form: TextForm
    answers: list[list[Answer | None]]


class OpenPairs(msgspec.Struct, tag=True):
    """Open a bilingual file; the reply is None."""

    path: str
    source_language: str | None
    target_language: str | None


class NextPairs(msgspec.Struct, tag=True):
    """Read the next pairs of the bilingual file; the reply is `SomePairs`."""


Request = (
    Inspect
    | Open
    | NextPortion
    | WritePortion
    | Join
    | NextPiece
    | ReadTexts
    | WriteTexts
    | OpenPairs
    | NextPairs
)


@dataclass(frozen=True)
class SomePairs:
    """Some pairs of a bilingual file.

    Attributes:
        pairs: the pairs; empty: there are no more.
        languages: source and target language; see `PairFile`.
        skipped: units so far that have no pair.
    """

    pairs: list[Pair]
    languages: tuple[str, str]
    skipped: int
