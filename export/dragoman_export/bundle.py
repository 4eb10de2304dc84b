"""Exports a checkpoint to a bundle."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import logging
import platform
import shutil
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import onnx
from dragoman_training.config import RunConfig
from dragoman_training.run import checkpoint_folder
from dragoman_training.run.checkpoint_folder import (
    CONFIG,
    SHORTLIST,
    TGT_TOKENIZER,
    TOKENIZER,
    WEIGHTS,
    Arrays,
    Described,
    tokenizer_files,
)
from safetensors.numpy import save_file

from dragoman import __version__
from dragoman.kernel.errors import UsageError, writing
from dragoman.kernel.manifest import (
    FORMAT_VERSION,
    INT8_FORMAT_VERSION,
    AlignmentHeads,
    Dimensions,
    Limits,
    Manifest,
    SpecialIds,
    digests,
)
from dragoman.kernel.replacement import check_folder, replace_folder
from dragoman.kernel.tensors import ATTENTION_GRAPH, SCALES
from dragoman_export.graphs.blocks import OpenBlocks
from dragoman_export.graphs.graph_builder import GraphBuilder, WeightsFile
from dragoman_export.graphs.transformer_graphs import Graph, all_graphs, attention

Storage = Literal["fp32", "fp16", "int8"]
_LARGEST_CODE, _SMALLEST_SCALE = np.float32(127), np.float32(1e-30)
"""As in the engine's compiled code."""
_LARGEST_HALF = float(np.finfo(np.float16).max)
_HALVED = ("embedding.weight", "src_embedding.weight")
"""Tables that the engine holds in fp16."""

_log = logging.getLogger(__name__)


def export_bundle(
    source: Path,
    bundle: Path,
    storage: Storage = "fp32",
    limits: Limits | None = None,
    length_penalty: float | None = None,
    max_sentence_tokens: int | None = None,
    force: bool = False,
) -> Manifest:
    """Write a bundle. It is also a checkpoint: its weights are the graphs' weights.

    Args:
        source: folder of a checkpoint.
        bundle: folder to create; it appears complete or not at all.
        storage: precision of the weights on disk. The graphs compute in fp32 in any case. In fp16,
            tensors with numbers beyond its range, 65504, stay in fp32. In int8, matrices
            have one scale per row, and products in the engine's own int8 stay the same; codes of
            the checkpoint stay as they are.
        limits: of requests; None for the checkpoint's.
        length_penalty: default of requests; None for the limits'.
        max_sentence_tokens: default for sentences of a longer text; None for the limits'.
        force: replace an existing bundle.

    Returns:
        The bundle's manifest.

    Raises:
        UsageError: `bundle` exists and may not be replaced, the checkpoint cannot be read, a
            default is out of range, or an embedding has numbers beyond the range of fp16.
    """
    if bundle.exists() and bundle.samefile(source):
        raise UsageError(f"{bundle} is both input and output: name another folder")
    check_folder(bundle, force, lambda folder: Manifest.load(folder).own_files)
    described = checkpoint_folder.describe(source)
    config = described.config
    limits = _with_defaults(limits or described.limits, length_penalty, max_sentence_tokens)
    if limits.top_k > config.model.vocab_size:
        raise UsageError(
            f"limits.top_k is {limits.top_k}: more than the vocabulary's {config.model.vocab_size}"
        )
    stored = checkpoint_folder.load_weights(source, config, codes=storage == "int8")
    weights = dict(_stored(stored, storage))
    partial = bundle.with_name(f".{bundle.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    save_file(weights, partial / WEIGHTS)
    (partial / CONFIG).write_text(config.to_json(), encoding="utf-8")
    shortlist = SHORTLIST if (source / SHORTLIST).exists() else None
    copied = (*tokenizer_files(config), *([SHORTLIST] if shortlist else []))
    for name in copied:
        shutil.copyfile(source / name, partial / name)
    graphs = all_graphs(config.model, limits, WeightsFile(partial / WEIGHTS))
    for graph in graphs.values():
        _write(graph, partial)
    files = (WEIGHTS, CONFIG, *copied)
    sizes = {field.name: getattr(config.model, field.name) for field in fields(Dimensions)}
    manifest = Manifest(
        format_version=INT8_FORMAT_VERSION if storage == "int8" else FORMAT_VERSION,
        dimensions=Dimensions(**sizes),
        languages=config.languages,
        special_ids=_special_ids(described),
        limits=limits,
        tokenizer=TOKENIZER,
        weights=WEIGHTS,
        precision="fp32",
        graphs={name: graph.entry for name, graph in graphs.items()},
        files=digests(partial, [*files, *(graph.entry.file for graph in graphs.values())]),
        built_with=_versions(),
        directions=config.directions,
        tgt_tokenizer=TGT_TOKENIZER if config.imported else None,
        activation=config.model.activation,
        alignment=_alignment(config),
        shortlist=shortlist,
    )
    manifest.write(partial)
    replace_folder(partial, bundle)
    return manifest


def _stored(weights: Arrays, storage: Storage) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """The weights as they are stored, by name."""
    for name, array in weights.items():
        largest = np.abs(array).max(initial=0.0)
        if largest > _LARGEST_HALF and name in _HALVED:
            raise UsageError(f"{name}: has {largest:g}, and fp16 holds at most {_LARGEST_HALF:g}")
        if storage == "fp16" and largest > _LARGEST_HALF:
            _log.warning("%s is stored in fp32: it has %g, too large for fp16", name, largest)
            yield name, array.astype(np.float32)
        elif name + SCALES in weights or name.endswith(SCALES):
            yield name, array
        elif storage != "int8":
            yield name, array.astype(np.float32 if storage == "fp32" else np.float16)
        elif array.ndim < 2:
            yield name, array.astype(np.float32)
        else:
            # The compiled code multiplies with the output embedding rounded to fp16.
            is_halved = name == "embedding.weight" and "own_output.weight" not in weights
            codes, scales = _quantized(array.astype(np.float16) if is_halved else array)
            yield name, codes
            yield name + SCALES, scales


def _quantized(
    weight: npt.NDArray[Any],
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Codes [M, K] and scales [M, 1] of a weight [M, K], those of the engine's compiled code.

    The compiled code quantizes the product of both again, and gets the same codes and scales: for
    every number m, the nearest to 127 times the nearest to m / 127, divided by 127, is the latter.
    """
    weight = weight.astype(np.float32)
    largest = np.abs(weight).max(axis=1, keepdims=True)
    scales = np.maximum(largest / _LARGEST_CODE, _SMALLEST_SCALE)
    return np.rint(weight / scales).astype(np.int8), scales


def _alignment(config: RunConfig) -> AlignmentHeads | None:
    """The head that an imported model was trained to align words with."""
    if config.imported is None or config.imported.alignment_head is None:
        return None
    layer, head = config.imported.alignment_head
    return AlignmentHeads(((layer, head),), False, "trained", 0.0, 0, "none")


def _special_ids(described: Described) -> SpecialIds:
    """Special ids of a checkpoint; tags only of languages that it translates into."""
    config, tokenizer = described.config, described.tokenizer
    targets = {target for _, target in config.directions} if tokenizer.tags else set()
    tagged = [language for language in config.languages if language in targets]
    return SpecialIds(tags={name: tokenizer.tag_id(name) for name in tagged})


def _with_defaults(
    limits: Limits, length_penalty: float | None, max_sentence_tokens: int | None
) -> Limits:
    """Limits with these defaults for requests, if given."""
    if length_penalty is not None:
        limits = dataclasses.replace(limits, length_penalty=length_penalty)
    if max_sentence_tokens is not None:
        limits = dataclasses.replace(limits, max_sentence_tokens=max_sentence_tokens)
    return limits


def add_attention_graph(bundle: Path) -> Manifest:
    """Add the graph `attention` to a bundle of an earlier version; everything else stays.

    Returns:
        The bundle's manifest.

    Raises:
        UsageError: the bundle is damaged, already has the graph, or cannot be written.
    """
    manifest = Manifest.load(bundle)
    if ATTENTION_GRAPH in manifest.graphs:
        raise UsageError(f"{bundle}: already has the graph {ATTENTION_GRAPH!r}")
    model = RunConfig.from_json(bundle / CONFIG).model
    builder = GraphBuilder(ATTENTION_GRAPH, WeightsFile(bundle / manifest.weights))
    graph = attention(OpenBlocks(builder, model, manifest.limits))
    with writing(bundle):
        _write(graph, bundle)
        added = dataclasses.replace(
            manifest,
            graphs={**manifest.graphs, ATTENTION_GRAPH: graph.entry},
            files={**manifest.files, **digests(bundle, [graph.entry.file])},
        )
        added.write(bundle)
    return added


def _write(graph: Graph, bundle: Path) -> None:
    path = bundle / graph.entry.file
    path.write_bytes(graph.model.SerializeToString())
    onnx.checker.check_model(str(path))


def _versions() -> dict[str, str]:
    packages = ("numpy", "onnx", "safetensors", "sentencepiece")
    versions = {name: importlib.metadata.version(name) for name in packages}
    return {"dragoman": __version__, "python": platform.python_version(), **versions}
