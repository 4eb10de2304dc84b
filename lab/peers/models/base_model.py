"""A model of the paper's base size with random weights, and random sources for it.

Speed does not depend on the values of the weights, as long as all translations have the same
length.

Source: Vaswani et al. 2017, table 3.
"""

from __future__ import annotations

import random
from pathlib import Path

import torch
from dragoman_export.bundle import Storage, export_bundle
from dragoman_training.config import DataConfig, RunConfig, VocabularyConfig
from dragoman_training.network.architecture import ModelConfig
from dragoman_training.network.transformer import Transformer
from dragoman_training.run import checkpoint
from dragoman_training.text.vocabulary import train_vocabulary

from dragoman.kernel.text import END_ID
from lab.peers.workers.worker_protocol import TokenIds

BASE = ModelConfig(
    vocab_size=32_000,
    model_size=512,
    feed_forward_size=2048,
    heads=8,
    encoder_layers=6,
    decoder_layers=6,
    norm="post",
)
SOURCE_TOKENS = 32
"""End symbol included."""
TARGET_TOKENS = 32

_LANGUAGES = ("en", "de")
_FIRST_CHARACTER = 0x4E00
"""First of 20,992 characters that Unicode normalization does not change."""
_FIRST_ORDINARY_ID = 300
"""Lower ids are special ids, tags and bytes."""


def write_random_bundle(
    folder: Path,
    config: ModelConfig = BASE,
    languages: tuple[str, ...] = _LANGUAGES,
    seed: int = 0,
    storage: Storage = "fp32",
) -> Path:
    """Write a checkpoint with random weights into a folder, and export it.

    Args:
        folder: contains both afterwards.
        config: sizes of the model, with a vocabulary of 1000 to 40,000.
        languages: of the model, which translates between all of them.
        seed: of the weights.
        storage: precision of the bundle's weights on disk.
    """
    tokenizer = folder / "tokenizer.model"
    vocabulary = VocabularyConfig(size=config.vocab_size, character_coverage=1.0)
    train_vocabulary(map(chr, _characters(config)), languages, vocabulary, tokenizer)
    torch.manual_seed(seed)
    weights = Transformer(config).state_dict()
    run = RunConfig(model=config, data=DataConfig(languages=languages), vocabulary=vocabulary)
    checkpoint.save(folder / "checkpoint", weights, run, tokenizer)
    export_bundle(folder / "checkpoint", folder / "bundle", storage)
    return folder / "bundle"


def _characters(config: ModelConfig) -> range:
    return range(_FIRST_CHARACTER, _FIRST_CHARACTER + config.vocab_size // 2)


def random_texts(sentences: int, config: ModelConfig = BASE) -> list[str]:
    """Texts with about as many tokens as `random_sources`; always the same."""
    generator = random.Random(0)  # noqa: S311  (no secret)
    characters = list(map(chr, _characters(config)))
    # The tokenizer adds a tag, the mark of a word's beginning and the end symbol.
    return ["".join(generator.choices(characters, k=SOURCE_TOKENS - 3)) for _ in range(sentences)]


def random_sources(sentences: int, vocab_size: int = BASE.vocab_size) -> TokenIds:
    """Sources of random ids and an end symbol; always the same."""
    generator = random.Random(0)  # noqa: S311  (no secret)
    ordinary = range(_FIRST_ORDINARY_ID, vocab_size)
    sources = [
        [*generator.choices(ordinary, k=SOURCE_TOKENS - 1), END_ID] for _ in range(sentences)
    ]
    return TokenIds(sources, [TARGET_TOKENS] * sentences)
