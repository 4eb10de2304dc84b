"""Text to token ids and back.

Knows the vocabulary file and the language tags; must not know models, requests or files of text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import sentencepiece

from dragoman.errors import UsageError

PAD_ID, UNKNOWN_ID, BEGIN_ID, END_ID = 0, 1, 2, 3
"""Special ids, the same in every vocabulary that the project trains."""


def language_tag(language: str) -> str:
    """The vocabulary entry that asks for a target language, put before the source text.

    Source: Johnson et al. 2017, https://arxiv.org/abs/1611.04558
    """
    return f"<2{language}>"


@dataclass(frozen=True)
class Piece:
    """An entry of the vocabulary in a text, and the characters that it stands for.

    A character that several pieces write together belongs to the last of them; the others have none
    and begin where it does.
    """

    text: str
    id: int
    begin: int
    end: int


class Tokenizer:
    """A SentencePiece vocabulary shared by all languages of one model.

    Tags and other specials are control symbols, so text that spells one out does not become one.
    """

    def __init__(self, path: Path) -> None:
        """Read a vocabulary.

        Raises:
            UsageError: no such file, not SentencePiece, or specials that stand elsewhere.
        """
        try:
            model = path.read_bytes()
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
        self._pieces = sentencepiece.SentencePieceProcessor()
        try:
            self._pieces.LoadFromSerializedProto(model)
        except RuntimeError as error:
            raise UsageError(f"{path}: not a SentencePiece model") from error
        specials = tuple(
            id_of() for id_of in (self._pieces.pad_id, self._pieces.bos_id, self._pieces.eos_id)
        )
        if specials != (PAD_ID, BEGIN_ID, END_ID):
            raise UsageError(f"{path}: pad, begin and end have ids {specials}: expected (0, 2, 3)")

    @property
    def vocab_size(self) -> int:
        """Number V of entries."""
        return int(self._pieces.GetPieceSize())

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        """What each entry [V] stands for; nothing for specials and single bytes."""
        model = self._pieces
        return tuple(
            ""
            if model.IsControl(i) or model.IsUnknown(i) or model.IsByte(i)
            else model.IdToPiece(i)
            for i in range(self.vocab_size)
        )

    def tag_id(self, language: str) -> int:
        """The id of a target language's tag.

        Raises:
            UsageError: the vocabulary has no such tag.
        """
        tag_id = int(self._pieces.PieceToId(language_tag(language)))
        if tag_id == UNKNOWN_ID:
            raise UsageError(f"unknown language {language!r}: this vocabulary has no tag for it")
        return tag_id

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, without specials; empty for a text of spaces alone."""
        return list(self._pieces.EncodeAsIds(text))

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """As `encode`, of many texts, on all cores."""
        return [list(ids) for ids in self._pieces.EncodeAsIds(list(texts))]

    def encode_source(self, text: str, target_language: str) -> list[int]:
        """Token ids that the encoder reads: the tag, the text, the end symbol.

        Raises:
            UsageError: the vocabulary has no tag for the language.
        """
        return [self.tag_id(target_language), *self.encode(text), END_ID]

    def token_starts(self, text: str) -> list[int]:
        """The character at which each token of `encode` begins."""
        return [piece.begin for piece in self.pieces(text)]

    def decode(self, ids: Sequence[int]) -> str:
        """Text of token ids; specials vanish, bytes that are not UTF-8 become U+FFFD."""
        return str(self._pieces.DecodeIds(list(ids)))

    def piece(self, token_id: int) -> str:
        """The vocabulary's entry of an id, such as `</s>`."""
        return str(self._pieces.IdToPiece(token_id))

    def pieces(self, text: str) -> list[Piece]:
        """What `encode` makes of a text, with the places in it."""
        return list(_pieces(text, self._pieces.EncodeAsProto(text)))

    def decoded_pieces(self, ids: Sequence[int]) -> list[Piece]:
        """A piece for each of token ids, with its place in the text that `decode` makes of them."""
        found = self._pieces.DecodeIdsAsProto(list(ids))
        return list(_pieces(str(found.text), found))


def _pieces(text: str, found: Any) -> Iterator[Piece]:
    """Pieces with places in characters; SentencePiece counts bytes of UTF-8."""
    characters = [0]
    for index, character in enumerate(text):
        characters += [index] * (len(character.encode("utf-8")) - 1) + [index + 1]
    for piece in found.pieces:
        yield Piece(piece.piece, piece.id, characters[piece.begin], characters[piece.end])
