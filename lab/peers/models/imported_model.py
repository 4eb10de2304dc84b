"""A model of OPUS-MT's size with random weights, in the format of `transformers`.

Speed does not depend on the values of the weights, as long as all translations have the same
length.

Source: https://huggingface.co/Helsinki-NLP/opus-mt-en-de/blob/main/config.json
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import sentencepiece
import torch

_FIRST_CHARACTER, _CHARACTERS = 0x4E00, 1000


@dataclass(frozen=True)
class Sizes:
    """Sizes of a model; by default those of opus-mt-en-de."""

    vocab_size: int = 58_101
    model_size: int = 512
    feed_forward_size: int = 2048
    heads: int = 8
    layers: int = 6


def write_random_model(folder: Path, sizes: Sizes) -> None:
    """Write a model with random weights, and a vocabulary whose tokens occur in no text."""
    from transformers import MarianConfig, MarianMTModel

    folder.mkdir(parents=True)
    for side in ("source", "target"):
        with (folder / f"{side}.spm").open("wb") as writer:
            sentencepiece.SentencePieceTrainer.Train(
                sentence_iterator=(
                    chr(code) for code in range(_FIRST_CHARACTER, _FIRST_CHARACTER + _CHARACTERS)
                ),
                model_writer=writer,
                model_type="char",
                vocab_size=_CHARACTERS,
                minloglevel=2,
            )
    names = ["</s>", "<unk>", *(f"piece{i}" for i in range(sizes.vocab_size - 3)), "<pad>"]
    pieces = {name: index for index, name in enumerate(names)}
    (folder / "vocab.json").write_text(json.dumps(pieces), encoding="utf-8")
    words = {"source_lang": "en", "target_lang": "de", "tokenizer_class": "MarianTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(words), encoding="utf-8")
    torch.manual_seed(0)
    config = MarianConfig(
        vocab_size=sizes.vocab_size,
        d_model=sizes.model_size,
        encoder_layers=sizes.layers,
        decoder_layers=sizes.layers,
        encoder_ffn_dim=sizes.feed_forward_size,
        decoder_ffn_dim=sizes.feed_forward_size,
        encoder_attention_heads=sizes.heads,
        decoder_attention_heads=sizes.heads,
        max_position_embeddings=512,
        activation_function="swish",
        scale_embedding=True,
        init_std=sizes.model_size**-0.5,
        pad_token_id=pieces["<pad>"],
        decoder_start_token_id=pieces["<pad>"],
        eos_token_id=pieces["</s>"],
        forced_eos_token_id=None,
    )
    model = MarianMTModel(config)
    model.generation_config.bad_words_ids = [[config.pad_token_id]]
    model.save_pretrained(folder)
