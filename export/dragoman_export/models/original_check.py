"""Compare a converted model with the checkpoint's own meaning, which NumPy computes from its files.

`conversion.check` compares a bundle with our own network, which has the same weights as the bundle.
An error in the conversion of the weights or of the vocabularies is seen only here.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from dragoman_training.marian.original import Original

from dragoman.kernel.errors import CheckFailed
from dragoman.kernel.manifest import Manifest
from dragoman.kernel.text import BEGIN_ID, Tokenizer
from dragoman_export.bundle import export_bundle
from dragoman_export.checks import Floats, Graphs, cached_logits
from dragoman_export.models.probe_texts import probe_texts

TOLERANCE = 1e-3
"""Largest allowed difference of vectors in fp32: its root mean square, relative to the standard
deviation of the original's values."""
_SENTENCES = 4
_TARGET_TOKENS = 12


def check_original(name: str, original: Original, checkpoint: Path) -> None:
    """Compare a checkpoint's vocabularies and logits with the model that it was made from.

    Args:
        name: of the model, for the message.
        original: the model.
        checkpoint: folder of the checkpoint. Its graphs are made in fp32, because a bundle may
            store rounded weights.

    Raises:
        CheckFailed: they differ; the message says in what.
    """
    with tempfile.TemporaryDirectory(dir=checkpoint.parent) as scratch:
        bundle = Path(scratch) / "bundle"
        export_bundle(checkpoint, bundle, "fp32")
        _compare_bundle(name, original, bundle)


def _compare_bundle(name: str, original: Original, bundle: Path) -> None:
    manifest = Manifest.read(bundle)
    limits, tokenizer = manifest.limits, manifest.open_tokenizer(bundle)
    src_ids = _our_ids(f"{name}: source vocabulary", tokenizer, original.src_entries)
    tgt_ids = _our_ids(f"{name}: target vocabulary", tokenizer.target, original.tgt_entries)
    columns = [
        token_id
        for entry, token_id in original.tgt_entries.items()
        if entry != original.never_generated
    ]
    our_columns = [tgt_ids[column] for column in columns]
    graphs = Graphs(bundle, manifest)
    sampled = random.Random(0)  # noqa: S311
    for text, target in probe_texts(manifest, tokenizer)[:_SENTENCES]:
        source = original.source_ids(text, target)
        if len(source) > limits.max_source_tokens:
            continue
        our_source = tokenizer.encode_source(text, target)
        if our_source != [src_ids[token_id] for token_id in source]:
            raise CheckFailed(f"{name}: the conversion splits {text!r} into other subword tokens")
        lengths = np.array([len(source)])
        cross = graphs["encoder"].run(
            None, {"input_ids": np.array([our_source]), "src_lengths": lengths}
        )
        memory = original.memory(source)
        for index, right in enumerate(original.cross(memory)):
            joined = cross[index][0].swapaxes(0, 1).reshape(right.shape)  # [H, S, D] to [S, E]
            what = f"{name}: keys or values of decoder layer {index // 2} for {text!r}"
            _compare(what, joined, right)
        prefix = sampled.choices(columns, k=min(_TARGET_TOKENS, limits.max_target_tokens - 1))
        tgt_in = np.array([[BEGIN_ID, *(tgt_ids[token_id] for token_id in prefix)]])
        (logits,) = cached_logits(graphs["decoder"], manifest, cross, lengths, tgt_in)
        for step, right in enumerate(original.logits(memory, prefix)):
            what = f"{name}: logits of token {step} for {text!r}"
            _compare(what, logits[step, our_columns], right[columns])


def _our_ids(where: str, tokenizer: Tokenizer, entries: Mapping[str, int]) -> dict[int, int]:
    """Our id of each of the original's ids."""
    ours = {tokenizer.piece(token_id): token_id for token_id in range(tokenizer.vocab_size)}
    for entry in entries:
        if entry not in ours:
            raise CheckFailed(f"{where}: the conversion lacks the entry {entry!r}")
    return {token_id: ours[entry] for entry, token_id in entries.items()}


def _compare(what: str, values: Floats, right: Floats) -> None:
    difference = float(np.sqrt(np.mean((values - right) ** 2)) / np.std(right))
    if not difference <= TOLERANCE:  # NaN is not
        raise CheckFailed(
            f"{what} differ by {difference:.1e} from those of its own files, allowed "
            f"{TOLERANCE:.0e}: the conversion is wrong, and the model is not used"
        )
