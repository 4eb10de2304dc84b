"""Test sets: sentences that all contenders can translate, with references."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dragoman_training.text.parallel_text import read_pairs

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Manifest
from lab.peers.contenders import SOURCE_LANGUAGE, TARGET_LANGUAGE


@dataclass(frozen=True)
class TestSet:
    """Sentences that both can translate, with references; `left_out` counts too long ones."""

    name: str
    texts: tuple[str, ...]
    references: tuple[str, ...]
    source_tokens: int
    left_out: int


def read_test_set(
    data_dir: Path, name: str, sentences: int | None, bundle: Path, manifest: Manifest
) -> TestSet:
    """Read the first sentences of a test set (None: all), without those that the model rejects.

    Raises:
        UsageError: a file is missing, or no sentence is left.
    """
    tokenizer = manifest.open_tokenizer(bundle)
    pairs = read_pairs(data_dir / name, (SOURCE_LANGUAGE, TARGET_LANGUAGE))[:sentences]
    kept = []
    source_tokens = 0
    for src, tgt in pairs:
        length = len(tokenizer.encode_source(src, TARGET_LANGUAGE))
        if length <= manifest.limits.max_source_tokens:
            kept.append((src, tgt))
            source_tokens += length - 2  # outputs are counted without specials too
    if not kept:
        raise UsageError(f"{data_dir / name}: no sentence that the model accepts")
    texts, references = zip(*kept, strict=True)
    return TestSet(name, texts, references, source_tokens, len(pairs) - len(kept))
