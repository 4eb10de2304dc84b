"""The command that imports Marian models: from folders, from a hub, and its refusals."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import pickle
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from dragoman_training.config import CorpusConfig, DataConfig, RunConfig
from dragoman_training.marian.importing import import_marian
from dragoman_training.marian.language_groups import MEMBERS
from dragoman_training.marian.languages import Languages, find_languages
from dragoman_training.run import checkpoint_folder

from dragoman.cli import main
from dragoman.kernel.errors import UsageError
from dragoman.kernel.positions import sinusoidal_positions
from tests.conftest import CommandLine, files_no_larger_than
from tests.marian_models import MarianModel, write_marian

NAME = "opus-mt-en-de"
Change = Callable[[Path], object]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("original") / NAME
    write_marian(folder, MarianModel())
    return folder


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    """A copy, to be damaged."""
    return Path(shutil.copytree(original, tmp_path / NAME))


def settings(**changes: Any) -> Change:
    return in_json("config.json", lambda values: values.update(changes))


def in_json(name: str, change: Callable[[dict[str, Any]], object]) -> Change:
    def apply(folder: Path) -> None:
        values = json.loads((folder / name).read_text("utf-8"))
        change(values)
        (folder / name).write_text(json.dumps(values), "utf-8")

    return apply


def in_tensors(change: Callable[[dict[str, torch.Tensor]], object]) -> Change:
    def apply(folder: Path) -> None:
        tensors = safetensors.torch.load_file(folder / "model.safetensors")
        change(tensors)
        safetensors.torch.save_file(tensors, folder / "model.safetensors")

    return apply


def write(name: str, content: bytes) -> Change:
    return lambda folder: (folder / name).write_bytes(content)


def remove(name: str) -> Change:
    return lambda folder: (folder / name).unlink()


def in_own_format(folder: Path) -> None:
    (folder / "config.json").rename(folder / "model.npz")


@dataclass(frozen=True)
class Code:
    """Creates a file when it is unpickled."""

    path: Path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch '{self.path}'",)


def as_pickle(write: Callable[[Path], object]) -> Change:
    """Weights in `pytorch_model.bin`, which a function writes."""

    def apply(folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        write(folder / "pytorch_model.bin")

    return apply


def pickled(content: object) -> Change:
    return as_pickle(lambda path: torch.save(content, path))


def as_bytes(content: bytes) -> Change:
    return as_pickle(lambda path: path.write_bytes(content))


def with_code(save: Callable[[object, Path], object]) -> Change:
    """A pickle that would create a file in the model's folder."""
    return as_pickle(lambda path: save({"weight": Code(path.with_name(CODE_RAN))}, path))


def bare_pickle(content: object, path: Path) -> None:
    path.write_bytes(pickle.dumps(content, protocol=2))


def odd_tensor(change: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    """A pickle in which one tensor is stored in another way."""

    def apply(folder: Path) -> None:
        tensors = safetensors.torch.load_file(folder / "model.safetensors")
        pickled(tensors | {LAYER: change(tensors[LAYER])})(folder)

    return apply


def of_value(value: float) -> Callable[[torch.Tensor], torch.Tensor]:
    def apply(tensor: torch.Tensor) -> torch.Tensor:
        tensor[1, 1] = value
        return tensor

    return apply


BIAS = "final_logits_bias"
LAYER = "model.encoder.layers.0.fc1.weight"
CODE_RAN = "code-ran"
DEEP = b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 9\n"
NOT_LOADED = "pytorch_model.bin: contains more than tensors, possibly code, and is not loaded"


DAMAGED_PICKLES = (
    *(b"x", b"\x80\x02", b"\x80\x02X\x01", b"\x80\x020.", b"\x80\x02].a"),
    *(b"\x80\x02K\x01K\x02\x86R.", b"\x80\x02}(K\x01u."),
)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (remove("config.json"), "config.json: cannot be read: No such file"),
        (remove("vocab.json"), "vocab.json: cannot be read: No such file"),
        (remove("target.spm"), "target.spm: cannot be read: No such file"),
        (remove("model.safetensors"), "has no model.safetensors and no pytorch_model.bin"),
        (write("config.json", b"{"), "config.json: not valid JSON"),
        (write("config.json", b"[]"), "config.json: is not a JSON object"),
        (write("vocab.json", b"\xff"), "vocab.json: not valid JSON"),
        (write("source.spm", b"no pieces"), "source.spm: not a SentencePiece model"),
        (write("source.spm", b""), "source.spm: not a SentencePiece model"),
        (write("model.safetensors", b"no tensors"), "model.safetensors: cannot be read"),
        (write("model.safetensors", POINTER), "model.safetensors: is a Git LFS pointer: run git"),
        (write("config.json", POINTER), "config.json: is a Git LFS pointer: run git lfs pull"),
        (in_own_format, "is in Marian's own format: convert it to that of transformers first"),
        (settings(model_type="bart"), "model_type is 'bart', not 'marian'"),
        (settings(normalize_before=True), "normalize_before is set, which is not supported"),
        (settings(activation_function="tanh"), "activation_function is 'tanh'; known: relu"),
        (settings(encoder_ffn_dim=64), "ffn_dim is not the same on both sides"),
        (settings(d_model="64"), "d_model is '64': expected a number"),
        (settings(d_model=60), "model.model_size is 60: give an even multiple"),
        (settings(scale_embedding=1), "scale_embedding is 1: expected true or false"),
        (settings(vocab_size=400), "entries, but config.json says vocab_size 400"),
        (settings(eos_token_id=7), "eos_token_id is 7, but vocab.json"),
        (settings(decoder_start_token_id=5000), "decoder_start_token_id is 5000: no entry"),
        (settings(quantization_config={}), "the weights are quantized"),
        (settings(encoder_layers=3), "'model.encoder.layers.2.self_attn.q_proj.weight' is missing"),
        (in_json("vocab.json", lambda v: v.pop("<unk>")), "vocab.json: its ids are not 0 to"),
        (in_json("vocab.json", lambda v: v.update(no_piece=len(v))), "says vocab_size"),
        (in_json("vocab.json", lambda v: v.update(more="1")), "is not a JSON object of ids"),
        (
            in_json("tokenizer_config.json", lambda v: v.update(unk_token="<what>")),
            "vocab.json: has no entry '<what>'",
        ),
        (in_tensors(lambda t: t.pop(LAYER)), f"the tensor {LAYER!r} is missing"),
        (in_tensors(lambda t: t.update(new=torch.ones(1))), "'new' is not part of a Marian"),
        (in_tensors(lambda t: t.update({LAYER: torch.ones(2, 3)})), "has shape [2, 3], config"),
        (in_tensors(lambda t: t.update({BIAS: t[BIAS].long()})), "not floating-point"),
        (
            in_tensors(
                lambda t: t.update({"model.encoder.embed_positions.weight": torch.ones(96, 64)})
            ),
            "is not a sinusoidal positional encoding",
        ),
        (with_code(torch.save), NOT_LOADED),
        (with_code(bare_pickle), NOT_LOADED),
        (pickled([torch.ones(1)]), "is not a list of tensors by name"),
        (pickled({1: torch.ones(1), "a": torch.ones(1)}), "is not a list of tensors by name"),
        *((as_bytes(damaged), "pytorch_model.bin: ") for damaged in DAMAGED_PICKLES),
        (odd_tensor(torch.Tensor.to_sparse), f"{LAYER!r} is not stored as a dense tensor"),
        (odd_tensor(lambda t: t.to("meta")), f"{LAYER!r} is not stored as a dense tensor"),
        (odd_tensor(of_value(math.nan)), f"{LAYER!r} has numbers that are not finite"),
        (
            in_tensors(lambda t: of_value(math.inf)(t[LAYER])),
            f"{LAYER!r} has numbers that are not finite",
        ),
        (
            in_tensors(lambda t: t.update({LAYER: t[LAYER].double() * 1e300})),
            f"{LAYER!r} has numbers that are not finite",
        ),
        (settings(activation_function=["relu"]), "activation_function is ['relu']; known: relu"),
        (settings(d_model=1 << 45), "config.json and the vocabulary say ["),
        (write("config.json", DEEP), "config.json: not valid JSON: nested too deeply"),
        (write("vocab.json", DEEP), "vocab.json: not valid JSON: nested too deeply"),
        (
            in_json("vocab.json", lambda v: v.update({"\ud800": len(v)})),
            "vocab.json: a token has half of a character",
        ),
    ],
)
def test_damaged_or_unsupported_files_are_named_in_one_line(
    folder: Path, change: Change, message: str, cli: CommandLine
) -> None:
    change(folder)
    out = folder.parent / "checkpoint"
    stderr = cli.refuses("import-marian", folder, "--out", out)
    assert message in stderr
    assert stderr.count("\n") == 1
    assert NAME in stderr or "config" in stderr
    assert sorted(path.name for path in folder.parent.iterdir()) == [NAME]
    assert not (folder / CODE_RAN).exists()


def test_a_checkpoint_has_the_format_that_training_writes(
    original: Path, tmp_path: Path, cli: CommandLine
) -> None:
    out = tmp_path / "checkpoint"
    words = ["import-marian", str(original), "--out", str(out)]
    assert cli.prints(*words) == f"{out}\n"
    assert main(["export", "onnx", str(out), "--out", str(tmp_path / "bundle")]) == 0
    assert "exists: give --force to replace it" in cli.refuses(*words)
    assert main([*words, "--force"]) == 0
    file = out / checkpoint_folder.CONFIG
    config = RunConfig.from_json(file)
    file.write_text(dataclasses.replace(config, imported=None).to_json())
    assert "this model was trained, not imported" in cli.refuses(*words, "--force")
    trained = DataConfig(train=(CorpusConfig("my", ("en", "de")),))
    file.write_text(dataclasses.replace(config, data=trained).to_json())
    assert main([*words, "--force"]) == 2
    assert "nowhere: no such folder, and a hub's" in cli.refuses(
        "import-marian", "nowhere", "--out", tmp_path / "other"
    )


@pytest.mark.parametrize("most_bytes", [1000, 100_000])
def test_a_full_disk_is_reported_and_leaves_no_files(
    original: Path, tmp_path: Path, most_bytes: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with files_no_larger_than(most_bytes):
        assert main(["import-marian", str(original), "--out", str(tmp_path / "checkpoint")]) == 2
    assert "checkpoint: cannot be written: " in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_positions_may_be_stored_if_they_equal_the_papers(folder: Path, tmp_path: Path) -> None:
    from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding

    import_marian(folder, tmp_path / "right")
    name = "model.decoder.embed_positions.weight"
    stored = MarianSinusoidalPositionalEmbedding(96, 64).create_weight()
    in_tensors(lambda t: t.update({name: stored}))(folder)
    assert name in safetensors.torch.load_file(folder / "model.safetensors")
    import_marian(folder, tmp_path / "imported")
    right, imported = ((tmp_path / side / "model.safetensors") for side in ("right", "imported"))
    assert right.read_bytes() == imported.read_bytes()
    # In another order, here that of our own tables, they are not Marian's.
    ours = torch.from_numpy(sinusoidal_positions(96, 64))
    in_tensors(lambda t: t.update({name: ours}))(folder)
    with pytest.raises(UsageError, match="is not a sinusoidal positional encoding"):
        import_marian(folder, tmp_path / "refused")


def test_weights_may_be_in_the_old_format(folder: Path, tmp_path: Path) -> None:
    import_marian(folder, tmp_path / "right")
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    shared = tensors["model.shared.weight"]
    names = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")
    tensors |= dict.fromkeys((*names, "lm_head.weight"), shared)
    (folder / "model.safetensors").unlink()
    torch.save(tensors, folder / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    import_marian(folder, tmp_path / "imported")
    right, imported = ((tmp_path / side / "model.safetensors") for side in ("right", "imported"))
    assert right.read_bytes() == imported.read_bytes()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--target", "de", "fr"], "has one target language; name it with --target"),
        (["--target", "fr=fra"], "has no tag 'fra'; known: "),
        (["--target", "en"], "source and target are both 'en'"),
        (["--target", "de=fra", "de=deu"], "--target de: is named twice, with different tags"),
        (["--target", "de=", "fr"], "--target de=: has no tag, so it must be the only target"),
        (["--source", "en.gb"], "'en.gb' is no language; write it as de or cmn_Hans"),
    ],
)
def test_languages_that_a_model_does_not_have_are_refused(
    original: Path, tmp_path: Path, words: list[str], message: str, cli: CommandLine
) -> None:
    out = str(tmp_path / "checkpoint")
    assert message in cli.refuses("import-marian", original, "--out", out, *words)


OTHER_GERMANIC = " ".join(code for code in MEMBERS["gem"] if code != "de")
TAGS = {">>deu<<": 3, ">>fra<<": 4, ">>cmn_Hans<<": 5}


@pytest.mark.parametrize(
    ("name", "words", "options", "pieces", "files"),
    [
        ("opus-mt-en-de", {}, Languages(), {}, ("en", {}, "de")),
        ("opus-mt-tc-big-gmq-en", {}, Languages(), {}, ("da is nn no sv", {}, "en")),
        ("any", {"source_lang": "eng", "target_lang": "deu"}, Languages(), {}, ("en", {}, "de")),
        *(
            ("any", {"source_lang": stated, "target_lang": "de"}, Languages(), {}, (src, {}, "de"))
            for stated, src in (
                ("opus-mt-en", "en"),
                ("opus-mt-tc-big-eng", "en"),
                ("marian-pt_BR", "pt_BR"),
                ("opus-mt-roa", " ".join(MEMBERS["ROMANCE"])),
            )
        ),
        (
            "opus-mt-en-de",
            {"source_lang": "our model", "target_lang": "my_model"},
            Languages(),
            {},
            ("en", {}, "de"),
        ),
        ("opus-mt-gem-gem", {}, Languages((), (("de", ""),)), TAGS, (OTHER_GERMANIC, {}, "de")),
        ("opus-mt-NORWAY-de", {}, Languages(), {}, ("nn no", {}, "de")),
        ("any", {}, Languages(("en",), (("de", None),)), {}, ("en", {}, "de")),
        ("any", {}, Languages(("en",), (("de", None), ("de", None))), {}, ("en", {}, "de")),
        (
            "opus-mt-en-mul",
            {},
            Languages(),
            TAGS,
            (
                "en",
                {"de": ">>deu<<", "fr": ">>fra<<", "cmn_Hans": ">>cmn_Hans<<"},
                "de fr cmn_Hans",
            ),
        ),
        ("opus-mt-en-mul", {}, Languages((), (("de", ""),)), TAGS, ("en", {}, "de")),
        (
            "opus-mt-en-mul",
            {},
            Languages((), (("zh", "cmn_Hans"), ("fra", None))),
            TAGS,
            ("en", {"zh": ">>cmn_Hans<<", "fra": ">>fra<<"}, "zh fra"),
        ),
    ],
)
def test_languages_are_read_from_files_name_or_options(
    name: str,
    words: dict[str, str],
    options: Languages,
    pieces: dict[str, int],
    files: tuple[str, dict[str, str], str],
) -> None:
    sources, tags, targets = files
    expected = tuple(sources.split()), tags, tuple(targets.split())
    assert find_languages(options, pieces, words, name) == expected


@pytest.mark.parametrize("group", ["gmq", "mul", "CELTIC"])
def test_a_group_of_targets_without_tags_needs_a_language(group: str) -> None:
    with pytest.raises(UsageError, match="name it with --target"):
        find_languages(Languages(), {}, {}, f"opus-mt-en-{group}")
