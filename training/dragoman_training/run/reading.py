"""A checkpoint's attention weights for a text and its translation."""

from __future__ import annotations

from pathlib import Path
from reprlib import repr as brief

import torch

from dragoman.kernel.attention_maps import MOST_WEIGHTS, Attention, count_weights, shifted
from dragoman.kernel.errors import UsageError
from dragoman.kernel.text import BEGIN_ID, END_ID
from dragoman_training.network.attention_weights import look
from dragoman_training.oracle.search import beam_search
from dragoman_training.run import checkpoint
from dragoman_training.run.checkpoint import Checkpoint

_BEAM_WIDTH = 4


def read_attention(
    folder: Path,
    text: str,
    source_language: str | None = None,
    target_language: str | None = None,
    translation: str | None = None,
) -> tuple[Attention, str]:
    """Translate a text with a checkpoint, and return its attention weights.

    Args:
        folder: of the checkpoint.
        text: to translate.
        source_language: of the text; None: that of the first matching direction.
        target_language: of the translation; None: that of the first matching direction.
        translation: to use instead of the model's own.

    Returns:
        The attention and the translation.

    Raises:
        UsageError: the checkpoint cannot be read, a language is unknown, or the text is empty or
            too long.
    """
    loaded = checkpoint.load(folder)
    target_language = _target(loaded, source_language, target_language)
    limits, vocabulary = loaded.limits, loaded.tokenizer.target
    src_ids = loaded.tokenizer.encode_source(text, target_language)
    own = len(src_ids) - loaded.tokenizer.tags - 1  # without tag and end symbol
    _check_length("text", own, limits.most_text_tokens)
    if translation is None:
        most = limits.target_tokens(len(src_ids))
        search = (_BEAM_WIDTH, limits.length_penalty)
        (hypothesis,) = beam_search(loaded.model, [src_ids], [most], *search)
        tgt_ids = [*hypothesis.ids, *([END_ID] if hypothesis.complete else [])]
        return _look(loaded, src_ids, tgt_ids), vocabulary.decode(hypothesis.ids)
    tgt_ids = vocabulary.encode(translation)
    _check_length("translation", len(tgt_ids), limits.max_target_tokens - 1)
    return _look(loaded, src_ids, [*tgt_ids, END_ID]), translation


def _target(loaded: Checkpoint, source: str | None, target: str | None) -> str:
    """The target language of the first matching direction."""
    for src, tgt in loaded.config.directions:
        if source in (None, src) and target in (None, tgt):
            return tgt
    trained = ", ".join("-".join(direction) for direction in loaded.config.directions)
    raise UsageError(
        f"the model does not translate from {brief(source or 'any')} into "
        f"{brief(target or 'any')}: it has {trained}"
    )


def _look(loaded: Checkpoint, src_ids: list[int], tgt_ids: list[int]) -> Attention:
    piece = loaded.tokenizer.target.piece
    said = tuple(map(piece, tgt_ids))
    src = torch.tensor([src_ids])
    read = torch.tensor([[BEGIN_ID, *tgt_ids][: len(tgt_ids)]])
    model = loaded.config.model
    number = count_weights(
        (len(src_ids), len(tgt_ids)), model.encoder_layers, model.decoder_layers, model.heads
    )
    if number > MOST_WEIGHTS:
        raise UsageError(f"{number} weights, more than {MOST_WEIGHTS}: shorten the text")
    weights = look(loaded.model, src, torch.ones_like(src, dtype=torch.bool), read)
    return Attention(
        tuple(map(loaded.tokenizer.piece, src_ids)),
        shifted(said, piece(BEGIN_ID)),
        said,
        *(tensor[0].numpy() for tensor in weights),
    )


def _check_length(what: str, tokens: int, most: int) -> None:
    if tokens == 0:
        raise UsageError(f"the {what} is empty")
    if tokens > most:
        raise UsageError(f"the {what} has {tokens} tokens, more than {most}: shorten it")
