"""A checkpoint's folder: file names, tensors as arrays, and how it is written.

Does not need PyTorch; `checkpoint` does the same with PyTorch's tensors and models.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import safetensors

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import FILE_NAME, Limits, Manifest
from dragoman.kernel.tensors import SCALES
from dragoman.kernel.text import Tokenizer
from dragoman_training.config import RunConfig
from dragoman_training.network.architecture import ModelConfig, weight_shapes

WEIGHTS, CONFIG, TOKENIZER = "model.safetensors", "config.json", "tokenizer.model"
TGT_TOKENIZER = "tokenizer_target.model"
"""Target tokenizer of an imported model that has one for each side."""
SHORTLIST = "shortlist.safetensors"
"""Lexical shortlists, of an imported model that has them and of a bundle."""
_FLOATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}

Arrays = dict[str, npt.NDArray[Any]]
"""Tensors by name."""
_Tensor = TypeVar("_Tensor", bound=Any)


@dataclass(frozen=True)
class Described:
    """The contents of a checkpoint's folder without the weights."""

    config: RunConfig
    tokenizer: Tokenizer
    limits: Limits
    """The limits of the bundle, if it is one."""


def describe(folder: Path) -> Described:
    """Read everything of a checkpoint except its weights.

    Raises:
        UsageError: a file is missing or damaged, or a bundle does not match its manifest.
    """
    config = RunConfig.from_json(folder / CONFIG)
    tokenizer = Tokenizer(*(folder / name for name in tokenizer_files(config)))
    vocab_size = config.model.vocab_size
    for vocabulary, name, size in (
        (tokenizer, TOKENIZER, config.model.src_vocab_size or vocab_size),
        (tokenizer.target, tokenizer_files(config)[-1], vocab_size),
    ):
        if vocabulary.vocab_size != size:
            raise UsageError(
                f"{folder / name}: has {vocabulary.vocab_size} entries, but {CONFIG} says {size}"
            )
    is_bundle = (folder / FILE_NAME).exists()
    limits = Manifest.load(folder).limits if is_bundle else config.limits
    return Described(config, tokenizer, limits)


def tokenizer_files(config: RunConfig) -> tuple[str, ...]:
    """A checkpoint's tokenizer files, the source side's first."""
    return (TOKENIZER, TGT_TOKENIZER) if config.imported else (TOKENIZER,)


def load_weights(folder: Path, config: RunConfig, codes: bool = False) -> Arrays:
    """Read a checkpoint's weights.

    Args:
        folder: with the weights.
        config: of the model.
        codes: whether to return weights that are stored in int8 as codes, with their scales.

    Raises:
        UsageError: the file is missing or damaged, or its names or shapes do not fit.
    """
    path = folder / WEIGHTS
    weights = read_arrays(path, codes)
    shapes = {name: array.shape for name, array in weights.items() if not name.endswith(SCALES)}
    check_shapes(path, shapes, config.model)
    return weights


def read_arrays(path: Path, codes: bool = False) -> Arrays:
    """Read a safetensors file; bfloat16, which NumPy lacks, and int8 with scales become fp32.

    With `codes`, int8 and scales stay as they are.

    Raises:
        UsageError: it cannot be read, or its tensors are not floating-point.

    Source: https://github.com/huggingface/safetensors#format
    """
    try:
        entries = safetensors.deserialize(path.read_bytes())  # type: ignore[no-untyped-call]
    except (OSError, safetensors.SafetensorError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    arrays: Arrays = {}
    for name, entry in entries:
        dtype, data = entry["dtype"], entry["data"]
        if dtype == "BF16":
            array = (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
        elif dtype in _FLOATS:
            array = np.frombuffer(data, _FLOATS[dtype])
        elif dtype == "I8" and any(other == name + SCALES for other, _ in entries):
            array = np.frombuffer(data, np.int8)
        else:
            raise UsageError(f"{path}: {name!r} is of {dtype}, not floating-point")
        arrays[name] = array.reshape(entry["shape"])
    return arrays if codes else with_scales(arrays)


def with_scales(tensors: dict[str, _Tensor]) -> dict[str, _Tensor]:
    """Multiply the weights that are stored in int8 by their scales, which are then left out."""
    weights = dict(tensors)
    for name in tensors:
        if name + SCALES in tensors:
            weights[name] = weights[name] * weights.pop(name + SCALES)
    return weights


def check_shapes(path: Path, shapes: Mapping[str, Sequence[int]], config: ModelConfig) -> None:
    """Check that a file has exactly the tensors of a model.

    Raises:
        UsageError: a name or a shape differs; the message names it.
    """
    expected = weight_shapes(config)
    for name in sorted(expected.keys() | shapes.keys()):
        if name not in shapes or name not in expected:
            side = "is missing" if name not in shapes else "is not part of this model"
            raise UsageError(f"{path}: the tensor {name!r} {side}")
        if tuple(shapes[name]) != expected[name]:
            raise UsageError(
                f"{path}: {name!r} has shape {list(shapes[name])}, "
                f"the configuration says {list(expected[name])}"
            )


def save(
    folder: Path,
    save_files: Callable[[Path], object],
    config: RunConfig,
    tokenizer: Path,
    tgt_tokenizer: Path | None = None,
) -> None:
    """Write a checkpoint under a temporary name, flush it to disk, then rename it.

    An existing checkpoint is put aside until then; `put_back` restores it after a kill.

    Args:
        folder: to create.
        save_files: writes the weights and any other files into a folder.
        config: of the model.
        tokenizer: file to copy.
        tgt_tokenizer: of the target side, if it has its own.

    Raises:
        UsageError: the disk is full or cannot be written; an existing checkpoint is kept.
    """
    partial = folder.with_name(f".{folder.name}.partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        save_files(partial)
        (partial / CONFIG).write_text(config.to_json(), encoding="utf-8")
        shutil.copyfile(tokenizer, partial / TOKENIZER)
        if tgt_tokenizer is not None:
            shutil.copyfile(tgt_tokenizer, partial / TGT_TOKENIZER)
        for path in (*partial.iterdir(), partial):
            _flush(path)
        put_back(folder)
        if folder.exists():
            shutil.rmtree(_former(folder), ignore_errors=True)
            os.replace(folder, _former(folder))
        os.replace(partial, folder)
        _flush(folder.parent)
    except (OSError, safetensors.SafetensorError) as error:
        put_back(folder)
        shutil.rmtree(partial, ignore_errors=True)
        raise UsageError(f"{folder}: cannot be written: {error}") from error
    shutil.rmtree(_former(folder), ignore_errors=True)


def put_back(folder: Path) -> None:
    """Restore a checkpoint that was put aside for one that was never completed."""
    if not folder.exists() and _former(folder).exists():
        os.replace(_former(folder), folder)


def _former(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.former")


def _flush(path: Path) -> None:
    """Make sure that a file or a directory survives a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
