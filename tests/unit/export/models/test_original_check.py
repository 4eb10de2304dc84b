"""Converted models are compared with their own files: right ones pass, each wrong one fails."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from dragoman_export.models.model_cache import ModelCache
from dragoman_export.models.original_check import check_original
from dragoman_training.firefox import student_weights
from dragoman_training.firefox.original_student import OriginalStudent
from dragoman_training.firefox.student_importing import import_student
from dragoman_training.marian import weights as marian_weights
from dragoman_training.marian.importing import import_marian
from dragoman_training.marian.original import Original, OriginalMarian
from dragoman_training.run.checkpoint_folder import CONFIG, TOKENIZER, WEIGHTS, Arrays
from dragoman_training.text.piece_file import Model
from safetensors.numpy import load_file, save_file

from dragoman.cli import main
from dragoman.kernel.errors import CheckFailed
from dragoman.kernel.tensors import SCALES
from tests.marian_models import MODELS, MarianModel, write_marian
from tests.marian_students import KINDS, float_twin, write_student


def imported(folder: Path, kind: str) -> tuple[Original, Path]:
    """A model before and after its conversion."""
    source, checkpoint = folder / "opus-mt-en-de", folder / "checkpoint"
    if kind in MODELS:
        write_marian(source, MODELS[kind])
        config = import_marian(source, checkpoint)
        assert config.imported is not None
        return OriginalMarian(source, config.imported.tags), checkpoint
    write_student(source, KINDS[kind])
    import_student(source, checkpoint)
    return OriginalStudent(source), checkpoint


@pytest.mark.parametrize("kind", [*MODELS, *KINDS])
def test_a_right_conversion_passes(kind: str, tmp_path: Path) -> None:
    check_original(kind, *imported(tmp_path, kind))


@pytest.mark.parametrize("begin", [5, [5]])
def test_decoding_may_start_with_any_token(begin: object, tmp_path: Path) -> None:
    write_marian(tmp_path / "opus-mt-en-de", MarianModel())
    path = tmp_path / "opus-mt-en-de" / "config.json"
    settings = {**json.loads(path.read_text()), "decoder_start_token_id": begin}
    path.write_text(json.dumps(settings))
    import_marian(tmp_path / "opus-mt-en-de", tmp_path / "checkpoint")
    original = OriginalMarian(tmp_path / "opus-mt-en-de", {})
    check_original("other start", original, tmp_path / "checkpoint")


def test_stored_embeddings_count_whatever_the_settings_share(tmp_path: Path) -> None:
    source = tmp_path / "opus-mt-en-de"
    write_marian(source, MarianModel())
    tensors = load_file(source / "model.safetensors")
    shape = tensors["model.shared.weight"].shape
    for name in ("lm_head", "model.encoder.embed_tokens"):
        other = np.random.default_rng(len(name)).normal(size=shape, scale=0.2)
        tensors[f"{name}.weight"] = other.astype(np.float32)
    save_file(tensors, source / "model.safetensors")
    import_marian(source, tmp_path / "checkpoint")
    check_original("differing", OriginalMarian(source, {}), tmp_path / "checkpoint")


@pytest.mark.parametrize("kind", MODELS)
def test_logits_are_those_of_transformers(kind: str, tmp_path: Path) -> None:
    """The computation of Firefox's models is held by `test_a_right_conversion_passes`."""
    from transformers import MarianMTModel

    original, _ = imported(tmp_path, kind)
    network = MarianMTModel.from_pretrained(tmp_path / "opus-mt-en-de").eval()
    source = original.source_ids("one two three", "fr" if "targets" in kind else "de")
    prefix = list(range(5, 17))
    tgt_in = torch.tensor([[network.config.decoder_start_token_id, *prefix]])
    with torch.no_grad():
        right = network(torch.tensor([source]), decoder_input_ids=tgt_in).logits[0].numpy()
    logits = original.logits(original.memory(source), prefix)
    assert np.abs(logits - right).max() < 1e-4 * np.abs(right).max()


def swap(first: str, second: str) -> Callable[[Arrays], None]:
    def apply(arrays: Arrays) -> None:
        arrays[first], arrays[second] = arrays[second], arrays[first]

    return apply


def halves_swapped(name: str) -> Callable[[Arrays], None]:
    def apply(arrays: Arrays) -> None:
        arrays[name] = np.concatenate(np.split(arrays[name], 2)[::-1])

    return apply


def scaled(name: str, factor: float) -> Callable[[Arrays], None]:
    def apply(arrays: Arrays) -> None:
        key = name if arrays[name].dtype == np.float32 else name + SCALES
        arrays[key] = arrays[key] * np.float32(factor)

    return apply


def no_bias(arrays: Arrays) -> None:
    bias = arrays["output_bias"]
    arrays["output_bias"] = np.where(bias > -1000, 0, bias).astype(np.float32)


def tokens_swapped(arrays: Arrays) -> None:
    for name in ("embedding.weight", "src_embedding.weight"):
        if name in arrays:
            arrays[name][[9, 10]] = arrays[name][[10, 9]]


WRONG = {
    "query and output": swap(
        "encoder_layers.0.self_attention.query.weight",
        "encoder_layers.0.self_attention.output.weight",
    ),
    "keys and values": halves_swapped("decoder_layers.0.cross_attention.key_value.weight"),
    "norms": swap(
        "decoder_layers.0.cross_attention_norm.weight", "decoder_layers.0.feed_forward_norm.weight"
    ),
    "scale": scaled("embedding.weight", 1.1),
    "output bias": no_bias,
    "feed-forward network": scaled("decoder_layers.0.feed_forward.outer.weight", 0.98),
    "two tokens": tokens_swapped,
}
EVERY = [
    (kind, wrong)
    for kind in (*MODELS, "shared", "two tables")
    for wrong in WRONG
    if kind in ("scaled", "two tables") or wrong in ("keys and values", "output bias")
]


@pytest.mark.parametrize(("kind", "wrong"), EVERY)
def test_wrong_weights_are_named(kind: str, wrong: str, tmp_path: Path) -> None:
    original, checkpoint = imported(tmp_path, kind)
    arrays = load_file(checkpoint / WEIGHTS)
    WRONG[wrong](arrays)
    save_file(arrays, checkpoint / WEIGHTS)
    with pytest.raises(CheckFailed, match=r"x: .*(?:keys or values|logits).* differ by"):
        check_original("x", original, checkpoint)


@pytest.mark.parametrize("kind", ["scaled", "shared"])
@pytest.mark.parametrize(
    ("name", "value"), [("norm_epsilon", 0.1), ("activation", "gelu"), ("heads", 2)]
)
def test_another_setting_of_the_network_is_found(
    kind: str, name: str, value: object, tmp_path: Path
) -> None:
    original, checkpoint = imported(tmp_path, kind)
    stored = json.loads((checkpoint / CONFIG).read_text())
    stored["model"][name] = value
    (checkpoint / CONFIG).write_text(json.dumps(stored))
    with pytest.raises(CheckFailed, match="keys or values"):
        check_original("x", original, checkpoint)


@pytest.mark.parametrize("kind", ["scaled", "own vocabularies", "two tables"])
@pytest.mark.parametrize("side", ["src", "tgt"])
def test_a_lost_entry_is_named(kind: str, side: str, tmp_path: Path) -> None:
    original, checkpoint = imported(tmp_path, kind)
    entries = dict(getattr(original, f"{side}_entries"))
    setattr(original, f"{side}_entries", {**entries, "new": len(entries)})
    with pytest.raises(CheckFailed, match="vocabulary: the conversion lacks the entry 'new'"):
        check_original("x", original, checkpoint)


@pytest.mark.parametrize("kind", ["scaled", "own vocabularies"])
def test_another_tokenization_is_named(kind: str, tmp_path: Path) -> None:
    original, checkpoint = imported(tmp_path, kind)
    path = checkpoint / TOKENIZER
    stored = Model.FromString(path.read_bytes())
    for piece in stored.pieces:  # long tokens are the least probable
        piece.score = -float(len(piece.piece) ** 2)
    path.write_bytes(stored.SerializeToString())
    with pytest.raises(CheckFailed, match=r"splits '.*' into other subword tokens"):
        check_original("x", original, checkpoint)


@pytest.mark.parametrize("kind", ["scaled", "shared", "codes from floats"])
def test_a_wrongly_converted_model_is_not_kept(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "opus-mt-en-de"
    if kind == "scaled":
        write_marian(folder, MODELS[kind])
    else:
        student = KINDS["shared"]
        write_student(folder, student if kind == "shared" else float_twin(student))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with monkeypatch.context() as patched:
        for module in (marian_weights, student_weights):
            patched.setattr(module, "paired_order", np.arange)
        assert main(["models", "add", str(folder)]) == 1
    assert re.search(r"opus-mt-en-de: .* differ by .* not used", capsys.readouterr().err)
    assert not ModelCache().models()
    assert main(["models", "add", str(folder)]) == 0
    assert len(list(ModelCache().models())) == 1
