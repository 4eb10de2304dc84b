"""A student's SentencePiece vocabularies in our order.

Marian's students have no list of tokens: an id is the index in the SentencePiece file, in which the
end symbol is first and the unknown token second. There is no padding and no start token.
"""

from __future__ import annotations

from pathlib import Path

from google.protobuf.message import DecodeError

from dragoman.kernel.errors import UsageError
from dragoman_training.marian.pieces import Entry, MarianSpecials, arrange
from dragoman_training.text.piece_file import CONTROL, UNKNOWN, Model

_END, _UNKNOWN = 0, 1
_SPECIALS = MarianSpecials(pad=None, unknown=_UNKNOWN, begin=None, end=_END, says_unknown=False)


def read_entries(path: Path, size: int) -> list[Entry]:
    """Read a vocabulary.

    Args:
        path: a SentencePiece model.
        size: number of its entries, by the settings.

    Returns:
        The entries in our order.

    Raises:
        UsageError: it cannot be read, has another size, or other special tokens.
    """
    try:
        model = Model.FromString(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except DecodeError as error:
        raise UsageError(f"{path}: not a SentencePiece model") from error
    pieces = list(model.pieces)
    if len(pieces) != size:
        raise UsageError(f"{path}: has {len(pieces)} entries, the model has {size}")
    kinds = [piece.type for piece in pieces[:2]]
    if kinds != [CONTROL, UNKNOWN] or pieces[_END].piece != "</s>":
        names = [piece.piece for piece in pieces[:2]]
        raise UsageError(f"{path}: its first entries are {names}: expected </s> and <unk>")
    ids = {piece.piece: token_id for token_id, piece in enumerate(pieces)}
    if len(ids) < size:
        raise UsageError(f"{path}: has an entry twice")
    return arrange(ids, _SPECIALS, {})
