"""Text to token ids and back."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import sentencepiece

from dragoman.kernel.errors import UsageError

PAD_ID, UNKNOWN_ID, BEGIN_ID, END_ID = 0, 1, 2, 3
"""Special ids, the same in every vocabulary."""
VOCABULARY_END = "<end of the vocabulary>"
"""Control symbol after the last entry of a vocabulary, if the file holds more subword tokens than
the model knows. Text is split into these as well, and the model gets the unknown token for each."""
FOREIGN = "\ue000"
"""Prefix, in a file, of vocabulary entries that text of this side is never split into. A model may
generate them all the same."""
_SPACE, _TAG = "▁", "<2"
_BROKEN = "\ufffd"
"""SentencePiece decodes bytes that form no character to this one."""


def language_tag(language: str) -> str:
    """Returns the vocabulary entry that selects a target language, put before the source text.

    Source: Johnson et al. 2017, https://arxiv.org/abs/1611.04558
    """
    return f"{_TAG}{language}>"


@dataclass(frozen=True)
class Piece:
    """A subword token in a text, and the span of its characters.

    If several subword tokens together encode one character, the last one has the character; the
    others have an empty span at the same position.
    """

    text: str
    id: int
    begin: int
    end: int


def tokens_of(word: re.Match[str], pieces: Sequence[Piece]) -> Iterator[int]:
    """Yields the indices of the tokens that encode characters of a word.

    If several tokens together encode one character, all of them count.
    """
    for index, piece in enumerate(pieces):
        if piece.begin < word.end() and max(piece.end, piece.begin + 1) > word.start():
            yield index


class Tokenizer:
    """A SentencePiece vocabulary, shared by all languages of a model or of its source side only.

    Tags and other special tokens are control symbols, so that no text is tokenized as one.
    """

    def __init__(self, path: Path, tgt_path: Path | None = None) -> None:
        """Read a vocabulary.

        Args:
            path: the vocabulary file.
            tgt_path: the target side's vocabulary file, if it has its own. If it has the same
                content, both sides share what is read.

        Raises:
            UsageError: no such file, not SentencePiece, or special tokens with unexpected ids.
        """
        model = _read(path)
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
        self._first, self._further = _FirstPieces(self._pieces), _FurtherPieces(self._pieces)
        self._tag_ids: dict[str, list[int]] = {}
        self._may_have_tags = _TAG.encode() in model
        """False avoids a search through all entries of a large vocabulary."""
        end = int(self._pieces.PieceToId(VOCABULARY_END))
        self._is_part = end != UNKNOWN_ID
        """Whether the file holds other entries than subword tokens of its own side."""
        self._size = end if self._is_part else int(self._pieces.GetPieceSize())
        self._target = Tokenizer(tgt_path) if tgt_path and _read(tgt_path) != model else None

    @property
    def target(self) -> Tokenizer:
        """The tokenizer of target text; the same one, unless the sides differ."""
        # No reference to itself: the vocabulary of an unloaded model must be freed without the
        # garbage collector, which stops all threads.
        return self._target or self

    @property
    def vocab_size(self) -> int:
        """Number V of entries."""
        return self._size

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        """Text of each entry [V]; empty for special tokens and single bytes."""
        not_text = self.bytes | {self._pieces.unk_id()}
        is_control = self._pieces.IsControl
        return tuple(
            "" if i in not_text or (is_control(i) and not self._is_foreign(i)) else self.piece(i)
            for i in range(self.vocab_size)
        )

    @cached_property
    def tags(self) -> int:
        """Number of ids before a source text: 1, or 0 if the vocabulary has no tags."""
        model = self._pieces
        return int(
            self._may_have_tags
            and any(
                model.IsControl(i) and model.IdToPiece(i).startswith(_TAG)
                for i in range(self.vocab_size)
            )
        )

    def tag_id(self, language: str) -> int:
        """Returns the id of a target language's tag.

        Raises:
            UsageError: the vocabulary has no such tag.
        """
        tag_id = int(self._pieces.PieceToId(language_tag(language)))
        if tag_id == UNKNOWN_ID:
            raise UsageError(f"unknown language {language!r}: this vocabulary has no tag for it")
        return tag_id

    def tag_ids(self, target_language: str) -> list[int]:
        """Returns the ids before a source text: the language's tag, if the vocabulary has tags.

        Raises:
            UsageError: the vocabulary has tags, but not this one.
        """
        if not self.tags:
            return []
        if (tag_ids := self._tag_ids.get(target_language)) is None:
            tag_ids = self._tag_ids[target_language] = [self.tag_id(target_language)]
        return tag_ids

    def encode(self, text: str) -> list[int]:
        """Returns the token ids of a text, without special tokens; empty for only spaces."""
        ids = list(self._pieces.EncodeAsIds(text))
        if self._is_part and (UNKNOWN_ID in ids or max(ids, default=0) >= self._size):
            pieces = self._pieces.EncodeAsPieces(text)
            return [self._known_id(*pair) for pair in zip(pieces, ids, strict=True)]
        return ids

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns `encode` of many texts; on all cores, except with imported vocabularies."""
        if self._is_part:
            return list(map(self.encode, texts))
        return [list(ids) for ids in self._pieces.EncodeAsIds(list(texts))]

    def encode_drawn(self, texts: Sequence[str], dropout: float, seed: int) -> list[list[int]]:
        """Returns `encode_all` with subword regularization: each merge may be skipped.

        Args:
            texts: texts to encode.
            dropout: probability that a merge is skipped, from 0 to 1.
            seed: within a process, the same seed with the same texts gives the same result.

        Raises:
            UsageError: the vocabulary was imported.

        Source: Provilkov et al. 2020, https://aclanthology.org/2020.acl-main.170
        """
        if self._is_part:
            raise UsageError("an imported vocabulary has no other pieces than those that it gives")

        def draw(text: str) -> list[int]:
            drawn = self._pieces.Encode(text, enable_sampling=True, alpha=dropout, nbest_size=-1)
            return list(drawn)

        # SentencePiece seeds its generator only when a thread samples for the first time.
        sentencepiece.set_random_generator_seed(seed)
        with ThreadPoolExecutor(max_workers=1) as fresh_thread:
            return fresh_thread.submit(lambda: list(map(draw, texts))).result()

    def encode_source(self, text: str, target_language: str) -> list[int]:
        """Returns the ids that the encoder reads: the tag, if there are tags, text and end symbol.

        Raises:
            UsageError: the vocabulary has no tag for the language.
        """
        return [*self.tag_ids(target_language), *self.encode(text), END_ID]

    def token_starts(self, text: str) -> list[int]:
        """Returns the character index at which each token of `encode` begins."""
        if text.isascii():
            return [piece.begin for piece in self._pieces.EncodeAsProto(text).pieces]
        return [piece.begin for piece in self.pieces(text)]

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of token ids, without special tokens and invalid UTF-8."""
        return self._decoded(ids).replace(_BROKEN, "")

    def is_broken(self, ids: Sequence[int]) -> bool:
        """Whether token ids have bytes that form no character."""
        return not self.bytes.isdisjoint(ids) and _BROKEN in self._decoded(ids)

    @cached_property
    def bytes(self) -> frozenset[int]:
        """Ids of the tokens that are single bytes."""
        ids = (self._pieces.PieceToId(f"<0x{value:02X}>") for value in range(256))
        return frozenset(id_ for id_ in ids if id_ < self.vocab_size and self._pieces.IsByte(id_))

    def can_write(self, text: str) -> bool:
        """Whether tokens give back a text as it is, other than by its single bytes."""
        ids = self.encode(text)
        if UNKNOWN_ID in ids or not self.bytes.isdisjoint(ids):
            return False
        return unicodedata.normalize("NFC", self.decode(ids)) == unicodedata.normalize("NFC", text)

    def piece(self, token_id: int) -> str:
        """Returns the vocabulary entry of an id, such as `</s>`."""
        return str(self._pieces.IdToPiece(token_id)).removeprefix(FOREIGN)

    def pieces(self, text: str) -> list[Piece]:
        """Returns the tokens of `encode`, with their spans in the text."""
        pieces = _pieces(text, self._pieces.EncodeAsProto(text))
        if not self._is_part:
            return list(pieces)
        return [replace(piece, id=self._known_id(piece.text, piece.id)) for piece in pieces]

    def decoded_pieces(self, ids: Sequence[int]) -> list[Piece]:
        """Returns a piece for each token id, with its span in the result of `decode`."""
        if self._is_part:
            proto = self._pieces.DecodePiecesAsProto(self._spelt(ids))
        else:
            proto = self._pieces.DecodeIdsAsProto(list(ids))
        written = str(proto.text)
        pieces = list(_pieces(written, proto))
        text = _with_spaces(written) if self._is_part else written
        begin, end = 0, len(text)
        if self._is_part:
            begin, end = len(text) - len(text.lstrip()), len(text.rstrip())
        elif _BROKEN not in text:
            return pieces
        kept = [begin <= index < end and text[index] != _BROKEN for index in range(len(text))]
        places = list(itertools.accumulate(kept, initial=0))
        return [
            Piece(piece.text, token, places[piece.begin], places[piece.end])
            for token, piece in zip(ids, pieces, strict=True)
        ]

    def _decoded(self, ids: Sequence[int]) -> str:
        """Decodes ids; without SentencePiece if all tokens are plain text.

        Each call of SentencePiece releases the GIL, and a busy engine then waits to get it back.
        """
        if self._is_part:
            return _with_spaces(self._pieces.DecodePieces(self._spelt(ids))).strip()
        rest = iter(ids)
        try:
            return self._first[next(rest)] + "".join(map(self._further.__getitem__, rest))
        except (KeyError, StopIteration):
            return str(self._pieces.DecodeIds(list(ids)))

    def _is_foreign(self, token_id: int) -> bool:
        return self._is_part and self._pieces.IdToPiece(token_id).startswith(FOREIGN)

    def _known_id(self, piece: str, token_id: int) -> int:
        """The model's id of a subword token.

        A subword token that is not of this side may still be an entry of the vocabulary, as in the
        tokenizer that the model was trained with.
        """
        if token_id == UNKNOWN_ID:
            return int(self._pieces.PieceToId(FOREIGN + piece))
        return token_id if token_id < self._size else UNKNOWN_ID

    def _spelt(self, ids: Sequence[int]) -> list[str]:
        """Subword tokens to decode, as text: SentencePiece keeps unknown ones of the other side."""
        return [self.piece(token) for token in ids]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error


class _FurtherPieces(dict[int, str]):
    """Decoded text by token id, for tokens after the first; KeyError if a token is not text.

    Several threads may decode at once, so an entry is stored only when it is final.
    """

    def __init__(self, pieces: sentencepiece.SentencePieceProcessor) -> None:
        super().__init__()
        self._pieces = pieces

    def __missing__(self, token_id: int) -> str:
        pieces = self._pieces
        if not 0 <= token_id < pieces.GetPieceSize() or any(
            is_kind(token_id) for is_kind in (pieces.IsUnknown, pieces.IsByte, pieces.IsControl)
        ):
            raise KeyError(token_id)
        text = self._text(token_id)
        if not text:
            raise KeyError(token_id)
        self[token_id] = text
        return text

    def _text(self, token_id: int) -> str:
        return _with_spaces(str(self._pieces.IdToPiece(token_id)))


class _FirstPieces(_FurtherPieces):
    """Decoded text by token id, for the first token; also KeyError if the text is empty."""

    def _text(self, token_id: int) -> str:
        return str(self._pieces.DecodeIds([token_id]))


def _with_spaces(text: str) -> str:
    return text.replace(_SPACE, " ")


def _pieces(text: str, proto: Any) -> Iterator[Piece]:
    """Pieces with spans in characters; SentencePiece counts UTF-8 bytes."""
    characters = [0]
    for index, character in enumerate(text):
        characters += [index] * (len(character.encode("utf-8")) - 1) + [index + 1]
    for piece in proto.pieces:
        yield Piece(piece.piece, piece.id, characters[piece.begin], characters[piece.end])
