from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import torch
from dragoman_training.config import RunConfig
from dragoman_training.run import checkpoint, checkpoint_folder

from dragoman.kernel.errors import UsageError
from tests.conftest import files_no_larger_than
from tests.tiny_models import tiny_config, tiny_model


def test_a_saved_checkpoint_is_loaded_unchanged(random_checkpoint: Callable[[str], Path]) -> None:
    loaded = checkpoint.load(random_checkpoint("pre"))
    for name, tensor in tiny_model("pre").state_dict().items():
        assert torch.equal(loaded.model.state_dict()[name], tensor)
    assert loaded.config.model.norm == "pre"
    assert not loaded.model.training


def test_the_average_is_the_mean(tmp_path: Path) -> None:
    for index, value in enumerate((1.0, 2.0, 6.0)):
        folder = tmp_path / str(index)
        folder.mkdir()
        tensors = {"w": torch.full((2,), value)}
        safetensors.torch.save_file(tensors, folder / checkpoint_folder.WEIGHTS)
    mean = checkpoint.average([tmp_path / str(index) for index in range(3)])
    assert mean["w"].tolist() == [3.0, 3.0]
    safetensors.torch.save_file({"w": torch.ones(3)}, tmp_path / "2" / checkpoint_folder.WEIGHTS)
    with pytest.raises(UsageError, match="'w' does not fit"):
        checkpoint.average([tmp_path / str(index) for index in range(3)])
    with pytest.raises(UsageError, match="no checkpoints"):
        checkpoint.average([])


@pytest.mark.parametrize("room_bytes", [0, 1000, 100_000])
def test_a_full_disk_leaves_the_old_checkpoint(
    random_checkpoint: Callable[[str], Path], room_bytes: int
) -> None:
    folder = random_checkpoint("post")
    loaded = checkpoint.load(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    weights = tiny_model(seed=1).state_dict()
    with (
        files_no_larger_than(room_bytes),
        pytest.raises(UsageError, match=f"{folder}: cannot be written: .*") as raised,
    ):
        checkpoint.save(folder, weights, loaded.config, folder / checkpoint_folder.TOKENIZER)
    assert "\n" not in str(raised.value)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert list(folder.parent.iterdir()) == [folder]


def test_a_checkpoint_that_cannot_be_replaced_is_kept(
    random_checkpoint: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = random_checkpoint("post")
    config = checkpoint.load(folder).config
    before = (folder / checkpoint_folder.WEIGHTS).read_bytes()
    copied = folder.with_name("tokenizer.model")
    copied.write_bytes((folder / checkpoint_folder.TOKENIZER).read_bytes())
    weights = tiny_model(seed=1).state_dict()
    rename = os.replace

    def broken(source: Path, target: Path) -> None:
        if source.name.endswith(".partial"):
            assert not target.exists()
            raise OSError("Input/output error")
        rename(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", broken)
        with pytest.raises(UsageError, match="cannot be written: Input/output error"):
            checkpoint.save(folder, weights, config, copied)
    assert (folder / checkpoint_folder.WEIGHTS).read_bytes() == before
    # Killed between the two renames.
    folder.rename(folder.with_name(f".{folder.name}.former"))
    checkpoint_folder.put_back(folder)
    assert (folder / checkpoint_folder.WEIGHTS).read_bytes() == before
    checkpoint.save(folder, weights, config, copied)
    assert (folder / checkpoint_folder.WEIGHTS).read_bytes() != before
    assert sorted(path.name for path in folder.parent.iterdir()) == ["post", "tokenizer.model"]


def test_damaged_checkpoints_are_named(random_checkpoint: Callable[[str], Path]) -> None:
    folder = random_checkpoint("post")
    weights = folder / checkpoint_folder.WEIGHTS
    tensors = safetensors.torch.load_file(weights)
    tensors["surplus"] = torch.ones(1)
    safetensors.torch.save_file(tensors, weights)
    with pytest.raises(UsageError, match=r"'surplus' is not part of this model"):
        checkpoint.load(folder)
    del tensors["surplus"]
    tensors["embedding.weight"] = torch.ones(3, 3)
    safetensors.torch.save_file(tensors, weights)
    with pytest.raises(UsageError, match=r"'embedding\.weight' has shape \[3, 3\]"):
        checkpoint.load(folder)
    del tensors["embedding.weight"]
    safetensors.torch.save_file(tensors, weights)
    with pytest.raises(UsageError, match=r"'embedding\.weight' is missing"):
        checkpoint.load(folder)
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(UsageError, match=r"model\.safetensors: cannot be read"):
        checkpoint.load(folder)
    config = json.loads((folder / checkpoint_folder.CONFIG).read_text())
    config["model"]["vocab_size"] = 321
    (folder / checkpoint_folder.CONFIG).write_text(json.dumps(config))
    with pytest.raises(UsageError, match=r"has 320 entries, but config\.json says 321"):
        checkpoint.load(folder)


def test_a_blend_is_between_two_models(tmp_path: Path, tokenizer_path: Path) -> None:
    config = RunConfig(tiny_config())
    trained, start = (tiny_model(seed=seed).state_dict() for seed in (0, 1))
    checkpoint.save(tmp_path / "start", start, config, tokenizer_path)
    blended = checkpoint.blend(trained, tmp_path / "start", share=0.25)
    for name, tensor in blended.items():
        torch.testing.assert_close(tensor, 0.75 * trained[name] + 0.25 * start[name])
