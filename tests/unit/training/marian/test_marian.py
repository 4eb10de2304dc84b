"""Imported models compared with `transformers`: logits, tokens, texts."""

from __future__ import annotations

import copy
import json
import operator
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from dragoman_export.bundle import export_bundle
from dragoman_export.parity import verify
from dragoman_serving.engine.batching.engine import Engine
from dragoman_serving.engine.compiled.compiled_network import NativeNetwork
from dragoman_serving.engine.network import Network
from dragoman_serving.engine.runtimes.device.device_memory import HostMemory
from dragoman_serving.engine.runtimes.device.device_network import DeviceNetwork
from dragoman_serving.engine.runtimes.device.onnx_runner import OnnxRunner
from dragoman_serving.engine.runtimes.onnx_session import OnnxSession
from dragoman_serving.engine.runtimes.session_decoding import Sessions
from dragoman_serving.engine.sentence import SearchOptions, Sentence
from dragoman_training.marian.importing import import_marian
from dragoman_training.marian.pieces import read_list
from dragoman_training.network.transformer import Transformer
from dragoman_training.oracle.constraints import Options
from dragoman_training.oracle.search import search
from dragoman_training.run import checkpoint
from dragoman_training.text.examples import pad
from safetensors.torch import load_file, save_file

from dragoman.kernel.manifest import Manifest, SpecialIds
from dragoman.kernel.text import BEGIN_ID, END_ID, PAD_ID
from tests.marian_models import MODELS, MarianModel, sentences, write_marian

MOST_TOKENS = 20
FEW_TOKENS = 6
TEXTS = 16
WIDTH = 4
BEAM_MODELS = "GELU, own embeddings, BPE", "several targets"
"""Models that are compared with beam search too; those of all are thorough tests."""


@dataclass(frozen=True)
class Imported:
    """A model in `transformers`, and in our form."""

    folder: Path
    bundle: Path
    theirs: Any
    their_tokenizer: Any
    ours: checkpoint.Checkpoint
    our_texts: list[str]
    target: str

    @property
    def their_texts(self) -> list[str]:
        """The texts for `transformers`, with the tag of the target language if there is one."""
        tags = self.ours.config.imported.tags if self.ours.config.imported else {}
        tag = tags.get(self.target)
        return [f"{tag} {text}" if tag else text for text in self.our_texts]

    @property
    def sources(self) -> list[list[int]]:
        """The source ids of the texts in our vocabulary."""
        return [self.ours.tokenizer.encode_source(text, self.target) for text in self.our_texts]

    def our_ids(self, side: str) -> dict[int, int]:
        """A map from the ids of `transformers` to ours, for a side's vocabulary."""
        separate = (self.folder / "target_vocab.json").exists() and side == "target"
        pieces = read_list(self.folder / ("target_vocab.json" if separate else "vocab.json"))
        tokenizer = self.ours.tokenizer.target if side == "target" else self.ours.tokenizer
        by_piece = {tokenizer.piece(token): token for token in range(tokenizer.vocab_size)}
        tags = {">>deu<<": "<2de>", ">>fra<<": "<2fr>", ">>pt_BR<<": "<2pt_BR>"}
        return {token: by_piece[tags.get(piece, piece)] for piece, token in pieces.items()}

    def generated(self, **options: Any) -> list[tuple[int, ...]]:
        """The result of `generate`, in our ids, without start and end."""
        batch = self.their_tokenizer(self.their_texts, return_tensors="pt", padding=True)
        tokens = self.theirs.generate(**batch, max_new_tokens=MOST_TOKENS, **options)
        ours = self.our_ids("target")
        special = {self.theirs.config.pad_token_id, self.theirs.config.eos_token_id}
        return [
            tuple(ours[token] for token in row if token not in special) for row in tokens.tolist()
        ]


@pytest.fixture(scope="module", params=MODELS)
def imported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Imported:
    parent = tmp_path_factory.mktemp("marian")
    write_marian(parent / "opus-mt-en-de", MODELS[request.param])
    result = import_model(parent)
    export_bundle(parent / "checkpoint", result.bundle)
    return result


def import_model(parent: Path) -> Imported:
    """Import `opus-mt-en-de` in a folder, where its checkpoint and its bundle belong too."""
    from transformers import MarianMTModel, MarianTokenizer

    folder, made = parent / "opus-mt-en-de", parent / "checkpoint"
    config = import_marian(folder, made)
    return Imported(
        folder=folder,
        bundle=parent / "bundle",
        theirs=MarianMTModel.from_pretrained(folder).eval(),
        their_tokenizer=MarianTokenizer.from_pretrained(folder),
        ours=checkpoint.load(made),
        our_texts=sentences(4000)[0][-TEXTS:],
        target=config.directions[-1][1],
    )


SHARED, OUTPUT = "model.shared.weight", "lm_head.weight"
ENCODER, DECODER = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
OWN_EMBEDDINGS = {"share_encoder_decoder_embeddings": False}


@pytest.mark.parametrize("is_stated", [True, False])
@pytest.mark.parametrize(
    ("settings", "added", "removed"),
    [
        ({}, (OUTPUT,), ()),
        ({}, (ENCODER,), ()),
        ({}, (DECODER,), ()),
        ({}, (ENCODER, DECODER, OUTPUT), ()),
        ({}, (OUTPUT, DECODER), (SHARED,)),
        ({}, (ENCODER,), (SHARED,)),
        (OWN_EMBEDDINGS, (OUTPUT,), ()),
        (OWN_EMBEDDINGS, (OUTPUT,), (DECODER,)),
    ],
)
def test_stored_embeddings_are_used_as_by_transformers(
    tmp_path: Path,
    settings: dict[str, Any],
    added: tuple[str, ...],
    removed: tuple[str, ...],
    is_stated: bool,
) -> None:
    folder = tmp_path / "opus-mt-en-de"
    write_marian(folder, MarianModel(settings=settings))
    tensors = load_file(folder / "model.safetensors")
    generator = torch.Generator().manual_seed(2)
    for name in added:
        shape = tensors[SHARED if SHARED in tensors else DECODER].shape
        tensors[name] = 0.2 * torch.randn(shape, generator=generator)
    for name in removed:
        del tensors[name]
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    stated = json.loads((folder / "config.json").read_text())
    del stated["tie_word_embeddings"]
    if is_stated:
        stated["tie_word_embeddings"] = True
    (folder / "config.json").write_text(json.dumps(stated))
    assert difference_of_logits(import_model(tmp_path)) < 1e-4


def test_logits_equal_those_of_transformers(imported: Imported) -> None:
    assert difference_of_logits(imported) < 1e-4


def difference_of_logits(imported: Imported) -> float:
    """The largest difference of logits, after the same random tokens."""
    batch = imported.their_tokenizer(imported.their_texts, return_tensors="pt", padding=True)
    torch.manual_seed(1)
    config, model = imported.theirs.config, imported.ours.model
    tgt_ids = torch.randint(5, config.decoder_vocab_size - 5, (TEXTS, 9))
    tgt_ids[:, 0] = config.decoder_start_token_id
    ours = imported.our_ids("target")
    src_ids = pad(imported.sources)
    our_tgt_ids = tgt_ids.clone().apply_(ours.__getitem__)
    our_tgt_ids[:, 0] = BEGIN_ID
    with torch.no_grad():
        right = imported.theirs(**batch, decoder_input_ids=tgt_ids).logits
        logits = model.project(model(src_ids, src_ids != PAD_ID, our_tgt_ids))
    said = [token for token in ours if token != config.pad_token_id]
    difference = (logits[..., [ours[token] for token in said]] - right[..., said]).abs().max()
    assert right.std() > 1  # otherwise the comparison would show little
    never = sorted(set(range(logits.size(-1))) - {ours[token] for token in said})
    assert logits.softmax(-1)[..., never].max() == 0
    return float(difference)


def oracle(imported: Imported, width: int, most: int, model: Any = None) -> list[tuple[int, ...]]:
    sources, limits = imported.sources, [most] * TEXTS
    results = search(model or imported.ours.model, sources, limits, Options(width, 0.0))
    return [best.ids for best, *_ in results]


def translate(imported: Imported, network: Network, width: int, most: int) -> list[Any]:
    options = SearchOptions(width, 0.0)
    jobs = [Sentence(tuple(ids), most, options) for ids in imported.sources]
    with closing(Engine(network, SpecialIds(tags={}))) as engine:
        return [future.result().ids for future in engine.submit(jobs)]


def networks_in_fp32(bundle: Path) -> Iterator[Network]:
    """The network of ONNX Runtime, and the one for GPUs in this machine's memory."""
    manifest, memory = Manifest.load(bundle), HostMemory()
    yield Sessions(OnnxSession(bundle, manifest, "fp32"))
    yield DeviceNetwork(manifest, OnnxRunner(bundle, manifest, "fp32", "cpu", memory), memory)


def moved(model: Transformer, size: float, seed: int) -> Transformer:
    """A model whose weights are changed by at most this share of the largest of their row."""
    copied = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in copied.parameters():
            if weight.dim() > 1:
                largest = weight.abs().amax(dim=1, keepdim=True)
                weight.add_(size * largest * torch.randn(weight.shape, generator=generator))
    return copied


def translations_of_moved(
    imported: Imported, width: int, most: int, size: float, seeds: int
) -> list[list[tuple[int, ...]]]:
    """Translations of models whose weights are changed by this much."""
    model = imported.ours.model
    return [oracle(imported, width, most, moved(model, size, seed)) for seed in range(seeds)]


def decided(right: list[tuple[int, ...]], others: list[list[tuple[int, ...]]]) -> list[int]:
    """The texts whose translation stays when the weights change: those without a tie."""
    return [i for i in range(TEXTS) if all(other[i] == right[i] for other in others)]


def log_probs(imported: Imported, said: list[tuple[int, ...]], most: int) -> torch.Tensor:
    """The model's own scores of translations [TEXTS], the end symbol included."""
    model, src_ids = imported.ours.model, pad(imported.sources)
    ended = [(*ids, END_ID)[:most] for ids in said]
    tgt_ids = pad([(BEGIN_ID, *ids[:-1]) for ids in ended])
    with torch.no_grad():
        logits = model.project(model(src_ids, src_ids != PAD_ID, tgt_ids)).log_softmax(-1)
    rows = zip(logits, ended, strict=True)
    return torch.stack([row[range(len(ids)), list(ids)].sum() for row, ids in rows])


each_model_and_width = pytest.mark.parametrize(
    ("imported", "width"),
    [
        *((name, 1) for name in MODELS),
        # With beams, the oracle takes most of the time.
        *(
            pytest.param(name, WIDTH, marks=[] if name in BEAM_MODELS else [pytest.mark.thorough])
            for name in MODELS
        ),
    ],
    indirect=["imported"],
)


@each_model_and_width
def test_tokens_equal_those_of_generate(imported: Imported, width: int) -> None:
    # Where the definitions of length penalty and of the end agree.
    options = {"length_penalty": 0.0, "early_stopping": True} if width > 1 else {}
    right = imported.generated(do_sample=False, num_beams=width, **options)
    others = translations_of_moved(imported, width, MOST_TOKENS, 1e-5, 1)
    translations = [oracle(imported, width, MOST_TOKENS)]
    compared = decided(translations[0], others)
    assert len({right[i] for i in compared}) > TEXTS // 2
    for network in networks_in_fp32(imported.bundle):
        translations.append(translate(imported, network, width, MOST_TOKENS))
    for i in compared:
        assert [tokens[i] for tokens in translations] == [right[i]] * len(translations)


@each_model_and_width
def test_eight_bits_agree_if_the_model_is_certain(imported: Imported, width: int) -> None:
    manifest = Manifest.load(imported.bundle)
    right = oracle(imported, width, FEW_TOKENS)
    translations = translate(imported, NativeNetwork(imported.bundle, manifest), width, FEW_TOKENS)
    others = translations_of_moved(imported, width, FEW_TOKENS, 0.7 / 127, 12)
    sure = decided(right, others)
    assert len(sure) > 1
    assert [translations[i] for i in sure] == [right[i] for i in sure]
    # Elsewhere a tie may be broken differently, but not everywhere, and without much loss.
    best = log_probs(imported, right, FEW_TOKENS)

    def lost(said: list[tuple[int, ...]]) -> float:
        return (best - log_probs(imported, said, FEW_TOKENS)).max().item()

    assert lost(translations) <= 1.1 * max(map(lost, others))
    assert sum(map(operator.eq, translations, right)) > TEXTS * 0.6


def test_graphs_give_the_same_results_as_the_model(imported: Imported) -> None:
    texts = [(text, imported.target) for text in imported.our_texts[:3]]
    outcomes = list(verify(imported.bundle, texts))
    assert not [outcome for outcome in outcomes if outcome.failed]


def test_texts_are_tokenized_and_joined_as_by_transformers(imported: Imported) -> None:
    tokenizer, theirs = imported.ours.tokenizer, imported.their_tokenizer
    sides = [side[-600:] for side in sentences(3000)]
    ours = imported.our_ids("source")
    odd = ["", "  ", "Straße \u00a0 naïve 漢字 🙂", "</s>", "<2de> x", "one\u2028two", "ﬁne"]
    end = theirs.eos_token_id
    for text in (*sides[0][-300:], *sides[1][-300:], *odd):
        text = text.replace("</s>", "<s>")  # theirs treats it as the end
        right = [ours[token] for token in theirs(text)["input_ids"] if token != end]
        assert tokenizer.encode(text) == right, text
        assert [piece.id for piece in tokenizer.pieces(text)] == right
    assert tokenizer.encode_all(odd) == list(map(tokenizer.encode, odd))
    for text_tokenizer in (tokenizer, tokenizer.target):
        for side in sides:
            assert text_tokenizer.encode_all(side) == list(map(text_tokenizer.encode, side))
    ours = imported.our_ids("target")
    unknown = theirs.unk_token_id
    for text in (*sides[0][-300:], *sides[1][-300:]):
        text = text.replace("</s>", "<s>")
        their_ids = theirs(text_target=text)["input_ids"][:-1]
        assert tokenizer.target.encode(text) == [ours[token] for token in their_ids], text
        known = [token for token in their_ids if token != unknown]
        ids = [ours[token] for token in known]
        decoded = tokenizer.target.decode(ids)
        assert decoded == theirs.decode(known, skip_special_tokens=True)
        pieces = tokenizer.target.decoded_pieces(ids)
        assert [piece.id for piece in pieces] == ids
        assert all(0 <= piece.begin <= piece.end <= len(decoded) for piece in pieces)
