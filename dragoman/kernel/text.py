"""Text to token ids and back."""

from __future__ import annotations

import re
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
"""The control symbol behind a vocabulary's last entry, where a file holds more pieces than its
model knows: text is cut into these too, and each is the unknown token to the model."""
FOREIGN = "\ue000"
"""What a vocabulary's entries begin with, in a file, that are no pieces of this side's text: a
model may say them all the same."""
_SPACE, _TAG = "▁", "<2"


def language_tag(language: str) -> str:
    """The vocabulary entry that asks for a target language, put before the source text.

    Source: Johnson et al. 2017, https://arxiv.org/abs/1611.04558
    """
    return f"{_TAG}{language}>"


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


def tokens_of(word: re.Match[str], pieces: Sequence[Piece]) -> Iterator[int]:
    """The tokens that stand for some of a word's characters.

    Of the tokens that write one character together, all do.
    """
    for index, piece in enumerate(pieces):
        if piece.begin < word.end() and max(piece.end, piece.begin + 1) > word.start():
            yield index


class Tokenizer:
    """A SentencePiece vocabulary shared by all languages of one model, or its source side's.

    Tags and other specials are control symbols, so text that spells one out does not become one.
    """

    def __init__(self, path: Path, tgt_path: Path | None = None) -> None:
        """Read a vocabulary.

        Args:
            path: of the vocabulary.
            tgt_path: of the target side's, where that is another.

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
        self._first, self._further = _FirstPieces(self._pieces), _FurtherPieces(self._pieces)
        self._may_have_tags = _TAG.encode() in model
        """False tells at once what a look at every entry of a large vocabulary would."""
        end = int(self._pieces.PieceToId(VOCABULARY_END))
        self._is_part = end != UNKNOWN_ID
        """Whether the file holds other entries than its own side's pieces."""
        self._size = end if self._is_part else int(self._pieces.GetPieceSize())
        self._target = Tokenizer(tgt_path) if tgt_path else None

    @property
    def target(self) -> Tokenizer:
        """The tokenizer of target text; the same one, unless the sides differ."""
        # It does not hold itself: so a dropped model's vocabulary is freed without the garbage
        # collector, whose runs hold up all threads.
        return self._target or self

    @property
    def vocab_size(self) -> int:
        """Number V of entries."""
        return self._size

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        """What each entry [V] stands for; nothing for specials and single bytes."""
        model = self._pieces
        return tuple(
            ""
            if model.IsUnknown(i)
            or model.IsByte(i)
            or (model.IsControl(i) and not self._is_foreign(i))
            else self.piece(i)
            for i in range(self.vocab_size)
        )

    @cached_property
    def tags(self) -> int:
        """How many ids of a source stand before its text: one, or none where there are no tags."""
        model = self._pieces
        return int(
            self._may_have_tags
            and any(
                model.IsControl(i) and model.IdToPiece(i).startswith(_TAG)
                for i in range(self.vocab_size)
            )
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

    def tag_ids(self, target_language: str) -> list[int]:
        """What stands before a source's text: the language's tag, if the vocabulary has any.

        Raises:
            UsageError: it has tags, but not this one.
        """
        return [self.tag_id(target_language)] if self.tags else []

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, without specials; empty for a text of spaces alone."""
        ids = list(self._pieces.EncodeAsIds(text))
        if self._is_part and (UNKNOWN_ID in ids or max(ids, default=0) >= self._size):
            pieces = self._pieces.EncodeAsPieces(text)
            return [self._known_id(*one) for one in zip(pieces, ids, strict=True)]
        return ids

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """As `encode`, of many texts; on all cores, but for imported vocabularies."""
        if self._is_part:
            return list(map(self.encode, texts))
        return [list(ids) for ids in self._pieces.EncodeAsIds(list(texts))]

    def encode_drawn(self, texts: Sequence[str], dropout: float, seed: int) -> list[list[int]]:
        """As `encode_all`, but each merge of pieces is left out with a probability.

        Args:
            texts: what to encode.
            dropout: the probability, from 0 to 1.
            seed: the same gives the same, for all texts at once.

        Raises:
            UsageError: the vocabulary was imported.

        Source: Provilkov et al. 2020, https://aclanthology.org/2020.acl-main.170
        """
        if self._is_part:
            raise UsageError("an imported vocabulary has no other pieces than those that it gives")

        def draw(text: str) -> list[int]:
            drawn = self._pieces.Encode(text, enable_sampling=True, alpha=dropout, nbest_size=-1)
            return list(drawn)

        # SentencePiece seeds a generator when a thread first draws, and never again.
        sentencepiece.set_random_generator_seed(seed)
        with ThreadPoolExecutor(max_workers=1) as fresh_thread:
            return fresh_thread.submit(lambda: list(map(draw, texts))).result()

    def encode_source(self, text: str, target_language: str) -> list[int]:
        """Token ids that the encoder reads: the tag if there are any, the text, the end symbol.

        Raises:
            UsageError: the vocabulary has no tag for the language.
        """
        return [*self.tag_ids(target_language), *self.encode(text), END_ID]

    def token_starts(self, text: str) -> list[int]:
        """The character at which each token of `encode` begins."""
        return [piece.begin for piece in self.pieces(text)]

    def decode(self, ids: Sequence[int]) -> str:
        """Text of token ids; specials vanish, bytes that are not UTF-8 become U+FFFD."""
        if not self._is_part:
            return self._decoded(ids)
        return _with_spaces(self._pieces.DecodePieces(self._spelt(ids))).strip()

    def piece(self, token_id: int) -> str:
        """The vocabulary's entry of an id, such as `</s>`."""
        return str(self._pieces.IdToPiece(token_id)).removeprefix(FOREIGN)

    def pieces(self, text: str) -> list[Piece]:
        """What `encode` makes of a text, with the places in it."""
        found = _pieces(text, self._pieces.EncodeAsProto(text))
        if not self._is_part:
            return list(found)
        return [replace(piece, id=self._known_id(piece.text, piece.id)) for piece in found]

    def decoded_pieces(self, ids: Sequence[int]) -> list[Piece]:
        """A piece for each of token ids, with its place in the text that `decode` makes of them."""
        if not self._is_part:
            found = self._pieces.DecodeIdsAsProto(list(ids))
            return list(_pieces(str(found.text), found))
        found = self._pieces.DecodePiecesAsProto(self._spelt(ids))
        text = _with_spaces(str(found.text))
        begin, end = len(text) - len(text.lstrip()), len(text.rstrip())
        return [
            Piece(piece.text, token, *(min(max(at, begin), end) - begin for at in place))
            for token, piece in zip(ids, _pieces(str(found.text), found), strict=True)
            for place in [(piece.begin, piece.end)]
        ]

    def _decoded(self, ids: Sequence[int]) -> str:
        """What SentencePiece decodes, without it where all tokens are plain pieces of text.

        Each of its calls lets go of the interpreter's lock, for which a busy engine then waits.
        """
        rest = iter(ids)
        try:
            return self._first[next(rest)] + "".join(map(self._further.__getitem__, rest))
        except (KeyError, StopIteration):
            return str(self._pieces.DecodeIds(list(ids)))

    def _is_foreign(self, token_id: int) -> bool:
        return self._is_part and self._pieces.IdToPiece(token_id).startswith(FOREIGN)

    def _known_id(self, piece: str, token_id: int) -> int:
        """The id by which the model knows a piece of text.

        What is no piece of this side may still be an entry: so does the tokenizer that the model
        was made with.
        """
        if token_id == UNKNOWN_ID:
            return int(self._pieces.PieceToId(FOREIGN + piece))
        return token_id if token_id < self._size else UNKNOWN_ID

    def _spelt(self, ids: Sequence[int]) -> list[str]:
        """Pieces to decode: those of the other side are unknown to this one, and stay."""
        return [self.piece(token) for token in ids]


class _FurtherPieces(dict[int, str]):
    """What a piece of text decodes to behind others, by id; a KeyError for what is none."""

    def __init__(self, pieces: sentencepiece.SentencePieceProcessor) -> None:
        super().__init__()
        self._pieces = pieces

    def __missing__(self, token_id: int) -> str:
        pieces = self._pieces
        if not 0 <= token_id < pieces.GetPieceSize() or any(
            is_kind(token_id) for is_kind in (pieces.IsUnknown, pieces.IsByte, pieces.IsControl)
        ):
            raise KeyError(token_id)
        text = self[token_id] = _with_spaces(str(pieces.IdToPiece(token_id)))
        return text


class _FirstPieces(_FurtherPieces):
    """The same of a piece that comes first; also a KeyError if nothing of it is left there."""

    def __missing__(self, token_id: int) -> str:
        super().__missing__(token_id)
        text = str(self._pieces.DecodeIds([token_id]))
        if not text:
            del self[token_id]
            raise KeyError(token_id)
        self[token_id] = text
        return text


def _with_spaces(text: str) -> str:
    return text.replace(_SPACE, " ")


def _pieces(text: str, found: Any) -> Iterator[Piece]:
    """Pieces with places in characters; SentencePiece counts bytes of UTF-8."""
    characters = [0]
    for index, character in enumerate(text):
        characters += [index] * (len(character.encode("utf-8")) - 1) + [index + 1]
    for piece in found.pieces:
        yield Piece(piece.piece, piece.id, characters[piece.begin], characters[piece.end])
