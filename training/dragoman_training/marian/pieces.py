"""Marian vocabularies in our order, and the SentencePiece files that encode them.

A Marian model has one SentencePiece model for each side, which splits text into subword tokens, and
a list that maps each token to its id. Here every entry of the list becomes an entry of a
SentencePiece file at the index of its id, so that SentencePiece returns the ids directly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.kernel.errors import UsageError
from dragoman.kernel.text import (
    BEGIN_ID,
    END_ID,
    FOREIGN,
    PAD_ID,
    UNKNOWN_ID,
    VOCABULARY_END,
    language_tag,
)
from dragoman_training.marian.settings import read_object
from dragoman_training.text.piece_file import (
    BYTE,
    CONTROL,
    NORMAL,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    Model,
    Piece,
    read_model,
)

_MULTIPLE = 64
"""The vocabulary size is a multiple of this, because top-k works on blocks of the vocabulary."""
_SPECIALS = {PAD_ID: "<pad>", UNKNOWN_ID: "<unk>", BEGIN_ID: "<s>", END_ID: "</s>"}
_OF_TEXT = {NORMAL, USER_DEFINED, BYTE, UNUSED}


@dataclass(frozen=True)
class MarianSpecials:
    """Ids of special tokens in a Marian model's own list; decoding starts with `begin`.

    Without a padding or a start token (None), our own is a zero vector. With `says_unknown`, a
    translation may contain the unknown token.
    """

    pad: int | None
    unknown: int
    begin: int | None
    end: int
    says_unknown: bool = True


@dataclass(frozen=True)
class Entry:
    """An entry of a vocabulary, in our order.

    Attributes:
        name: the subword token, or the name of the special token.
        marian_id: id in the Marian model's list; None for padding entries.
        is_piece: whether it stands for text.
        is_said: whether a translation may contain it.
    """

    name: str
    marian_id: int | None
    is_piece: bool = False
    is_said: bool = True


def read_list(path: Path) -> dict[str, int]:
    """Read a vocabulary list: ids by token.

    Raises:
        UsageError: it cannot be read, or its ids are not 0 to N - 1, each once.
    """
    values = read_object(path)
    if not all(type(token_id) is int for token_id in values.values()):
        raise UsageError(f"{path}: is not a JSON object of ids by token")
    try:
        "".join(values).encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{path}: a token has half of a character") from error
    if sorted(values.values()) != list(range(len(values))):
        raise UsageError(f"{path}: its ids are not 0 to {len(values) - 1}, each once")
    return values


def tags_of(pieces: Mapping[str, int]) -> dict[str, str]:
    """Entries such as `>>fra<<`, which select a target language, by the code inside."""
    tags = sorted(filter(_is_tag, pieces), key=pieces.__getitem__)
    return {tag[2:-2]: tag for tag in tags}


def _is_tag(piece: str) -> bool:
    return piece.startswith(">>") and piece.endswith("<<") and len(piece) > len(">><<")


def arrange(
    pieces: Mapping[str, int], specials: MarianSpecials, tags: Mapping[str, str]
) -> list[Entry]:
    """Put a list into our order: specials, tags, subword tokens, padding up to the multiple.

    Args:
        pieces: ids by token.
        specials: ids of the special tokens.
        tags: the entry that selects each target language.
    """
    names = {token_id: piece for piece, token_id in pieces.items()}
    entries = [
        Entry(_SPECIALS[PAD_ID], specials.pad, is_said=False),
        Entry(_SPECIALS[UNKNOWN_ID], specials.unknown, is_said=specials.says_unknown),
        Entry(_SPECIALS[BEGIN_ID], specials.begin, is_said=False),
        Entry(_SPECIALS[END_ID], specials.end),
        *(Entry(language_tag(language), pieces[tag]) for language, tag in tags.items()),
    ]
    # The start token may be generated too, unless it is the padding token.
    taken = {entry.marian_id for place, entry in enumerate(entries) if place != BEGIN_ID}
    for token_id in range(len(names)):
        if token_id not in taken:
            entries.append(Entry(names[token_id], token_id, is_piece=True))
    missing = -len(entries) % _MULTIPLE
    return entries + [Entry(f"<filler {i}>", None, is_said=False) for i in range(missing)]


def write_sentencepiece(source: Path, entries: Sequence[Entry], out: Path) -> None:
    """Write a side's SentencePiece model with the vocabulary's entries in their order.

    Args:
        source: the side's SentencePiece model.
        entries: of the vocabulary.
        out: file to write; `VOCABULARY_END` and `FOREIGN` in `dragoman.kernel.text` describe the
            format.

    Raises:
        UsageError: `source` cannot be read, or is not a SentencePiece model.
    """
    model = read_model(source)
    own = {piece.piece: piece for piece in model.pieces if piece.type in _OF_TEXT}
    if not own:
        raise UsageError(f"{source}: not a SentencePiece model")
    written = Model()
    written.CopyFrom(model)
    written.ClearField("self_test_data")
    del written.pieces[:]
    written.pieces.extend(_arranged(own, entries))
    spec = written.trainer_spec
    spec.vocab_size = len(written.pieces)
    spec.pad_id, spec.unk_id, spec.bos_id, spec.eos_id = PAD_ID, UNKNOWN_ID, BEGIN_ID, END_ID
    spec.pad_piece, spec.unk_piece = _SPECIALS[PAD_ID], _SPECIALS[UNKNOWN_ID]
    spec.bos_piece, spec.eos_piece = _SPECIALS[BEGIN_ID], _SPECIALS[END_ID]
    out.write_bytes(written.SerializeToString())


def _arranged(own: dict[str, Any], entries: Sequence[Entry]) -> Iterator[Any]:
    known = set()
    for token_id, entry in enumerate(entries):
        if entry.is_piece and entry.name in own:
            known.add(entry.name)
            yield own[entry.name]
        elif entry.is_piece:
            yield Piece(piece=FOREIGN + entry.name, type=CONTROL)
        else:
            kind = UNKNOWN if token_id == UNKNOWN_ID else CONTROL
            yield Piece(piece=entry.name, type=kind)
    others = [piece for name, piece in own.items() if name not in known]
    if others or any(entry.is_piece and entry.name not in own for entry in entries):
        yield Piece(piece=VOCABULARY_END, type=CONTROL)
        yield from others
