"""Check a bundle without PyTorch: compare its fp32 graphs with each other, and int8 with them.

Two graphs compute the same in two ways: `decoder` step by step with a cache, `score` whole prefixes
at once. If they agree, the fp32 graphs' tokens are the reference for everything else. The digest of
these tokens shows later, on any machine, whether they are still the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from dragoman_serving.engine.compiled.compiled_ranking import log_softmax
from dragoman_serving.engine.sentence import SearchOptions
from dragoman_training.network.architecture import NEVER

from dragoman.kernel.errors import UsageError
from dragoman.kernel.text import BEGIN_ID, PAD_ID
from dragoman_export.checks import (
    Floats,
    Graphs,
    Ids,
    Outcome,
    cached_logits,
    compare,
    engine,
    graph_names,
    int8_outcomes,
    not_comparable,
    translate,
)

_SAMPLE = 4
"""Number of sentences whose values are compared; tokens are compared for all sentences."""
_DIGEST_CHECK = "tokens: greedy, as when the model was converted"


def fp32_tokens(graphs: Graphs, sources: Sequence[Ids]) -> list[tuple[int, ...]]:
    """Greedy translations with a bundle's graphs in fp32.

    Raises:
        UsageError: a graph cannot be loaded.
    """
    with engine(graphs.network("fp32"), graphs.manifest) as running:
        return translate(running, graphs.manifest, sources, SearchOptions(1, 0.0))


def digest(tokens: Sequence[Ids]) -> str:
    """SHA-256 of the ids of translations, in hexadecimal."""
    return hashlib.sha256(json.dumps([list(ids) for ids in tokens]).encode()).hexdigest()


def digest_outcome(tokens: Sequence[Ids], recorded: str) -> Outcome:
    """Check that the fp32 graphs still generate the recorded translations."""
    computed = digest(tokens)
    return Outcome(_DIGEST_CHECK, computed == recorded, f"SHA-256 {computed}, recorded {recorded}")


def verify_graphs(
    graphs: Graphs, sources: Sequence[Ids], tokens: Sequence[Ids], exact: bool
) -> Iterator[Outcome]:
    """Compare a bundle's graphs with each other, and the engine in int8 with them.

    Args:
        graphs: of the bundle.
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
    kept = set(graphs)
    for name in graph_names(graphs.manifest):
        yield graphs.interface(name)
        if name not in kept:  # each holds all the weights that it needs
            del graphs[name]
    sample = _Sample(graphs, sources[:_SAMPLE], tokens[:_SAMPLE])
    yield from sample.outcomes(exact)
    yield from int8_outcomes(graphs, sources, tokens, sample.logits_after, exact)


class _Sample:
    """A few sentences with their translations, and the graphs' results for them."""

    def __init__(self, graphs: Graphs, sources: Sequence[Ids], tokens: Sequence[Ids]) -> None:
        self._graphs, manifest = graphs, graphs.manifest
        most, end = manifest.limits.max_target_tokens, manifest.special_ids.end
        self._src_ids = _padded(sources)
        self._src_lengths = np.array([len(ids) for ids in sources])
        self._tgt_in = _padded([[BEGIN_ID, *ids][:most] for ids in tokens])
        self._tgt_out = _padded([[*ids, end][:most] for ids in tokens])
        self._keep = self._tgt_out != PAD_ID

    def outcomes(self, exact: bool) -> Iterator[Outcome]:
        """Compare `score` and int8 with the fp32 decoder, step by step."""
        right = self._logits("encoder", "decoder")
        (log_probs,) = self._graphs["score"].run(
            ["log_probs"],
            {
                "input_ids": self._src_ids,
                "src_lengths": self._src_lengths,
                "tgt_in_ids": self._tgt_in,
                "tgt_out_ids": self._tgt_out,
            },
        )
        del self._graphs["score"]
        chosen = np.take_along_axis(
            log_softmax(right[self._keep]), self._tgt_out[self._keep][:, None], axis=-1
        )
        yield compare("score: values = cached steps", log_probs[self._keep], chosen[:, 0])
        check = "decoder_int8: values = fp32"
        if not exact:
            yield not_comparable(check)
            return
        int8 = self._logits("encoder_int8", "decoder_int8")
        said = (right > NEVER / 2) & self._keep[..., None]
        yield compare(check, int8[said], right[said], "int8")

    def logits_after(self, source: Ids, prefix: Ids) -> Floats:
        """See `LogitsAfter`."""
        src_lengths = np.array([len(source)])
        cross = self._graphs["encoder"].run(
            None, {"input_ids": np.array([source]), "src_lengths": src_lengths}
        )
        decoder, manifest = self._graphs["decoder"], self._graphs.manifest
        steps = decoder, manifest, cross, src_lengths, np.array([prefix])
        logits: Floats = cached_logits(*steps)[0, -1]
        return logits

    def _logits(self, encoder: str, decoder: str) -> Floats:
        graphs, inputs = (
            self._graphs,
            {"input_ids": self._src_ids, "src_lengths": self._src_lengths},
        )
        cross = graphs[encoder].run(None, inputs)
        steps = graphs.manifest, cross, self._src_lengths, self._tgt_in
        return cached_logits(graphs[decoder], *steps)


def _padded(rows: Sequence[Ids]) -> npt.NDArray[np.int64]:
    """Pad ids to [B, T]."""
    longest = max(map(len, rows))
    return np.array([[*ids, *[PAD_ID] * (longest - len(ids))] for ids in rows], np.int64)
