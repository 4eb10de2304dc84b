"""Check a bundle without PyTorch: compare its fp32 graphs with each other, and int8 with them.

Two graphs compute the same in two ways: `decoder` step by step with a cache, `score` whole prefixes
at once. If they agree, the fp32 graphs' tokens are the reference for everything else. The digest of
these tokens shows later, on any machine, whether they are still the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from dragoman_serving.engine.compiled.compiled_ranking import log_softmax
from dragoman_serving.engine.runtimes.onnx_session import load_graph
from dragoman_serving.engine.sentence import SearchOptions
from dragoman_training.network.architecture import NEVER
from onnxruntime import InferenceSession

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Manifest
from dragoman.kernel.text import BEGIN_ID, PAD_ID
from dragoman_export.checks import (
    Floats,
    Ids,
    Outcome,
    cached_logits,
    compare,
    engine,
    fp32_network,
    graph_names,
    int8_outcomes,
    interface,
    not_comparable,
    translate,
)

_SAMPLE = 4
"""Number of sentences whose values are compared; tokens are compared for all sentences."""
_DIGEST_CHECK = "tokens: greedy, as when the model was converted"


def fp32_tokens(bundle: Path, manifest: Manifest, sources: Sequence[Ids]) -> list[tuple[int, ...]]:
    """Greedy translations with the bundle's graphs in fp32.

    Raises:
        UsageError: a graph cannot be loaded.
    """
    with engine(fp32_network(bundle, manifest), manifest) as running:
        return translate(running, manifest, sources, SearchOptions(1, 0.0))


def digest(tokens: Sequence[Ids]) -> str:
    """SHA-256 of the ids of translations, in hexadecimal."""
    return hashlib.sha256(json.dumps([list(ids) for ids in tokens]).encode()).hexdigest()


def digest_outcome(tokens: Sequence[Ids], recorded: str) -> Outcome:
    """Check that the fp32 graphs still generate the recorded translations."""
    computed = digest(tokens)
    return Outcome(_DIGEST_CHECK, computed == recorded, f"SHA-256 {computed}, recorded {recorded}")


def verify_graphs(
    bundle: Path, manifest: Manifest, sources: Sequence[Ids], tokens: Sequence[Ids], exact: bool
) -> Iterator[Outcome]:
    """Compare a bundle's graphs with each other, and the engine in int8 with them.

    Args:
        bundle: folder of a bundle.
        manifest: its manifest, checked.
        sources: ids of sentences.
        tokens: their translations by `fp32_tokens`.
        exact: whether ONNX Runtime's 8-bit products are exact here.

    Yields:
        The outcome of each check.

    Raises:
        UsageError: there are no sentences, or a graph cannot be loaded.
    """
    if not sources:
        raise UsageError("no sentences to compare on")
    # One graph at a time: each holds all the weights that it needs.
    for name in graph_names(manifest):
        yield interface(name, load_graph(bundle, manifest, name), manifest.graphs[name])
    sample = _Sample(bundle, manifest, sources[:_SAMPLE], tokens[:_SAMPLE])
    yield from sample.outcomes(exact)
    yield from int8_outcomes(bundle, manifest, sources, tokens, sample.logits_after, exact)


class _Sample:
    """A few sentences with their translations, and the graphs' results for them."""

    def __init__(
        self, bundle: Path, manifest: Manifest, sources: Sequence[Ids], tokens: Sequence[Ids]
    ) -> None:
        self._bundle, self._manifest = bundle, manifest
        most, end = manifest.limits.max_target_tokens, manifest.special_ids.end
        self._src_ids = _padded(sources)
        self._src_lengths = np.array([len(ids) for ids in sources])
        self._tgt_in = _padded([[BEGIN_ID, *ids][:most] for ids in tokens])
        self._tgt_out = _padded([[*ids, end][:most] for ids in tokens])
        self._keep = self._tgt_out != PAD_ID
        self._encoder, self._decoder = self._load("encoder"), self._load("decoder")

    def outcomes(self, exact: bool) -> Iterator[Outcome]:
        """Compare `score` and int8 with the fp32 decoder, step by step."""
        right = self._logits(self._encoder, self._decoder)
        (log_probs,) = self._load("score").run(
            ["log_probs"],
            {
                "input_ids": self._src_ids,
                "src_lengths": self._src_lengths,
                "tgt_in_ids": self._tgt_in,
                "tgt_out_ids": self._tgt_out,
            },
        )
        chosen = np.take_along_axis(
            log_softmax(right[self._keep]), self._tgt_out[self._keep][:, None], axis=-1
        )
        yield compare("score: values = cached steps", log_probs[self._keep], chosen[:, 0])
        check = "decoder_int8: values = fp32"
        if not exact:
            yield not_comparable(check)
            return
        int8 = self._logits(self._load("encoder_int8"), self._load("decoder_int8"))
        said = (right > NEVER / 2) & self._keep[..., None]
        yield compare(check, int8[said], right[said], "int8")

    def logits_after(self, source: Ids, prefix: Ids) -> Floats:
        """See `LogitsAfter`."""
        src_lengths = np.array([len(source)])
        cross = self._encoder.run(
            None, {"input_ids": np.array([source]), "src_lengths": src_lengths}
        )
        steps = self._decoder, self._manifest, cross, src_lengths, np.array([prefix])
        logits: Floats = cached_logits(*steps)[0, -1]
        return logits

    def _logits(self, encoder: InferenceSession, decoder: InferenceSession) -> Floats:
        inputs = {"input_ids": self._src_ids, "src_lengths": self._src_lengths}
        cross = encoder.run(None, inputs)
        return cached_logits(decoder, self._manifest, cross, self._src_lengths, self._tgt_in)

    def _load(self, name: str) -> InferenceSession:
        return load_graph(self._bundle, self._manifest, name)


def _padded(rows: Sequence[Ids]) -> npt.NDArray[np.int64]:
    """Pad ids to [B, T]."""
    longest = max(map(len, rows))
    return np.array([[*ids, *[PAD_ID] * (longest - len(ids))] for ids in rows], np.int64)
