"""Random Marian models in the format of `transformers`, as input of the import."""

from __future__ import annotations

import functools
import io
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from dragoman_training.text.parallel_text import TextFiles

from tests.conftest import CORPORA, REPOSITORY

MOST_SENTENCES = 4000
LEFT_OUT = 7
"""At this interval, a token of several characters is missing from the lists."""
_OF_SOURCE = 1.3
"""Strength of the source's influence, through three decoder layers, on the result."""
_made: dict[str, dict[str, bytes]] = {}
"""The files of the models that this process made."""


@dataclass(frozen=True)
class MarianModel:
    """A folder to create.

    `settings` are those of `MarianConfig` that differ from a small model's. With `tags`, the model
    has several target languages. `texts` are the training text of the tokens, all of which are then
    listed.
    """

    pieces: str = "unigram"
    separate_lists: bool = False
    tags: tuple[str, ...] = ()
    pickled: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
    texts: tuple[Sequence[str], Sequence[str]] | None = None


MODELS = {
    "scaled": MarianModel(),
    "not scaled, ReLU, pickled": MarianModel(
        pickled=True, settings={"scale_embedding": False, "activation_function": "relu"}
    ),
    "GELU, own embeddings, BPE": MarianModel(
        pieces="bpe",
        settings={
            "activation_function": "gelu",
            "share_encoder_decoder_embeddings": False,
            "encoder_layers": 3,
            "decoder_layers": 1,
        },
    ),
    "own vocabularies": MarianModel(
        separate_lists=True, settings={"share_encoder_decoder_embeddings": False}
    ),
    "own output, static positions": MarianModel(
        settings={"tie_word_embeddings": False, "static_position_embeddings": True}
    ),
    "several targets": MarianModel(tags=("deu", "fra", "pt_BR")),
}
"""Models of each form that is imported."""


def sentences(number: int) -> tuple[list[str], list[str]]:
    """Sentences of two languages, if the corpora are available; else of one, and altered."""
    src, tgt = _every_sentence()
    return src[:number], tgt[:number]


@functools.cache
def _every_sentence() -> tuple[list[str], list[str]]:
    if CORPORA.is_dir():
        files = TextFiles(CORPORA / "tatoeba-en-de" / "train", ("en", "de"))
        pairs = list(itertools.islice(iter(files), MOST_SENTENCES))
        return [source for source, _ in pairs], [target for _, target in pairs]
    text = "\n".join(path.read_text("utf-8") for path in sorted(REPOSITORY.glob("docs/*.md")))
    lines = [line.strip() for line in text.splitlines() if line.strip()][:MOST_SENTENCES]
    altered = str.maketrans("aousy", "äöüßj")
    return lines, [line.translate(altered) for line in lines]


def write_marian(folder: Path, model: MarianModel) -> None:
    """Write a model with random weights, and the requested vocabularies.

    A process makes each model once.
    """
    folder.mkdir(parents=True)
    if (key := repr(model)) not in _made:
        _make(folder, model)
        _made[key] = {path.name: path.read_bytes() for path in folder.iterdir()}
    for name, content in _made[key].items():
        (folder / name).write_bytes(content)


def _make(folder: Path, model: MarianModel) -> None:
    from transformers import MarianConfig, MarianMTModel

    left_out = 0 if model.texts else LEFT_OUT
    sides = []
    for side, (name, size) in enumerate((("source.spm", 260), ("target.spm", 220))):
        if model.texts:
            trained = _learn_pieces(model.texts[side], size, model.pieces, 1.0)
        else:
            trained = _of_sentences(side, size, model.pieces)
        (folder / name).write_bytes(trained)
        sides.append(_sorted_pieces(trained))
    lists = [_listed(side, model.tags, left_out) for side in sides]
    if not model.separate_lists:
        both = list(dict.fromkeys([*sides[0], *sides[1]]))
        lists = [_listed(both, model.tags, left_out)]
    for name, pieces in zip(("vocab.json", "target_vocab.json"), lists, strict=False):
        (folder / name).write_text(json.dumps(pieces), encoding="utf-8")
    words = {
        "source_lang": "eng",
        "target_lang": "mul" if model.tags else "deu",
        "separate_vocabs": model.separate_lists,
        "tokenizer_class": "MarianTokenizer",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(words), encoding="utf-8")
    config = MarianConfig(
        **{
            "vocab_size": len(lists[0]),
            "decoder_vocab_size": len(lists[-1]),
            "d_model": 64,
            "encoder_layers": 2,
            "decoder_layers": 3,
            "encoder_ffn_dim": 128,
            "decoder_ffn_dim": 128,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "max_position_embeddings": 96,
            "scale_embedding": True,
            "activation_function": "swish",
            "pad_token_id": lists[-1]["<pad>"],
            "decoder_start_token_id": lists[-1]["<pad>"],
            "eos_token_id": 0,
            "forced_eos_token_id": None,
            **model.settings,
        }
    )
    network = MarianMTModel(config)
    _draw(network, seed=5)
    network.generation_config.num_beams = 4
    network.generation_config.bad_words_ids = [[config.pad_token_id]]
    network.save_pretrained(folder)
    if model.pickled:
        torch.save(network.state_dict(), folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()


@functools.cache
def _of_sentences(side: int, size: int, kind: str) -> bytes:
    """The subword model of a side of `sentences`; some characters are only on one side."""
    return _learn_pieces(sentences(1500)[side], size, kind, 0.998)


def _learn_pieces(texts: Sequence[str], size: int, kind: str, coverage: float) -> bytes:
    """Train a subword model."""
    writer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(texts),
        model_writer=writer,
        model_type=kind,
        vocab_size=size,
        hard_vocab_limit=False,  # fewer tokens if the text gives no more
        character_coverage=coverage,
        minloglevel=2,
    )
    return writer.getvalue()


def _sorted_pieces(trained: bytes) -> list[str]:
    """The tokens of a subword model, not in its order."""
    pieces = sentencepiece.SentencePieceProcessor(model_proto=trained)
    return sorted(pieces.IdToPiece(i) for i in range(3, pieces.GetPieceSize()))


def _listed(pieces: Sequence[str], tags: Sequence[str], left_out: int) -> dict[str, int]:
    kept = [
        piece
        for place, piece in enumerate(pieces)
        if not left_out or place % left_out or len(piece) == 1
    ]
    names = ["</s>", "<unk>", *kept, *(f">>{tag}<<" for tag in tags), "<pad>"]
    return {name: index for index, name in enumerate(names)}


@torch.no_grad()
def _draw(network: Any, seed: int) -> None:
    """Sample weights that make some tokens far more probable than others.

    Each token's embedding is a rotation of the one before it. The decoder's last layer rotates its
    input in the same way, so that each token predicts the next one, as far as the source allows.
    There, the activation of x minus that of -x is x again, for every supported activation.
    """
    generator = torch.Generator().manual_seed(seed)
    config = network.config

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    size, pad = config.d_model, config.pad_token_id
    turn, _ = torch.linalg.qr(drawn(size, size))
    vector = drawn(size)
    turned = []
    for _ in range(max(config.vocab_size, config.decoder_vocab_size)):
        turned.append(vector)
        vector = turn @ vector
    embedding = torch.stack(turned) * (1.5 * size**-0.5 if config.scale_embedding else 1.0)
    of_source = _OF_SOURCE * (3 / config.decoder_layers) ** 0.5
    embedding[pad] = 0.0  # as converted models have it
    for name, weight in network.named_parameters():
        if "embed_positions" in name:
            continue
        if "encoder.embed_tokens" in name or "lm_head" in name:
            weight.copy_(embedding[: len(weight)] + drawn(*weight.shape) * embedding.std() / 4)
        elif "embed_tokens" in name or "shared" in name:
            weight.copy_(embedding[: len(weight)])
        elif weight.dim() > 1:
            strength = of_source if "encoder_attn" in name else 1.0
            weight.copy_(drawn(*weight.shape) * strength * sum(weight.shape) ** -0.5)
        else:
            weight.copy_(float("layer_norm.weight" in name) + 0.1 * drawn(*weight.shape))
    last = network.model.decoder.layers[-1]
    both = torch.cat((torch.eye(size), -torch.eye(size)))
    last.fc1.weight.copy_(both)
    last.fc1.bias.zero_()
    last.fc2.weight.copy_(3 * turn @ both.T)
    bias = network.final_logits_bias
    bias.copy_(0.5 * drawn(*bias.shape))
    bias[0, pad] = 0.0
