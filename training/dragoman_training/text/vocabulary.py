"""Trains a joint SentencePiece vocabulary."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import sentencepiece

from dragoman.kernel.errors import UsageError
from dragoman.kernel.replacement import replacing
from dragoman.kernel.text import BEGIN_ID, END_ID, PAD_ID, UNKNOWN_ID, language_tag
from dragoman_training.config import VocabularyConfig
from dragoman_training.text.parallel_text import ParallelText, drawn_pairs

_MAX_SENTENCES = 2_000_000


def vocabulary_text(
    texts: Sequence[ParallelText], languages: Sequence[str], max_sentences: int = _MAX_SENTENCES
) -> Iterator[str]:
    """The sentences to train the vocabulary on; each corpus contributes by its weight.

    A corpus with a weight above one is taken once, since only the variety of words matters. If
    there are more than `max_sentences`, every corpus contributes proportionally less.
    """
    shares, sides = [], []
    for text in texts:
        sides.append([at for at, language in enumerate(text.languages) if language in languages])
        taken = min(len(text.pairs), text.max_pairs or len(text.pairs))
        shares.append(math.ceil(taken * min(text.weight, 1.0)))
    sentences = sum(n * len(those) for n, those in zip(shares, sides, strict=True))
    for text, share, those in zip(texts, shares, sides, strict=True):
        taken = share
        if sentences > max_sentences:
            taken = max(1, share * max_sentences // sentences)
        for pair in drawn_pairs(replace(text, max_pairs=taken)) if those else ():
            yield from (pair[side] for side in those)


def train_vocabulary(
    sentences: Iterable[str], languages: Sequence[str], config: VocabularyConfig, path: Path
) -> None:
    """Train BPE on all languages together and write the SentencePiece model.

    A text that is too small for `config.size` entries gives a smaller vocabulary.

    Args:
        sentences: text of every language.
        languages: each gets a tag, a control symbol that no text can produce.
        config: size and coverage.
        path: where to write; it appears complete or not at all.

    Raises:
        UsageError: there is no text, the size is too small for the bytes and the characters, or the
            disk is full.
    """
    try:
        with replacing(path) as (partial,), partial.open("wb") as writer:
            sentencepiece.SentencePieceTrainer.Train(
                sentence_iterator=iter(sentences),
                model_writer=writer,
                model_type="bpe",
                vocab_size=config.size,
                hard_vocab_limit=False,  # fewer entries if the text gives no more
                character_coverage=config.character_coverage,
                byte_fallback=True,
                pad_id=PAD_ID,
                unk_id=UNKNOWN_ID,
                bos_id=BEGIN_ID,
                eos_id=END_ID,
                control_symbols=[language_tag(language) for language in languages],
                input_sentence_size=_MAX_SENTENCES,
                shuffle_input_sentence=False,
                minloglevel=2,
            )
    except RuntimeError as error:
        reason = str(error).rsplit("] ", 1)[-1] or "no text"
        raise UsageError(f"vocabulary.size is {config.size}: {reason}") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)
