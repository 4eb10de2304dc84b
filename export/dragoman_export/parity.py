"""Compare a bundle with PyTorch: names, shapes, values, then the tokens of real sentences.

All failures are reported together. If names, types or shapes are wrong, the checks that would run
the graphs are skipped.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from dragoman_serving.engine.compiled.cpu import exact_int8_products
from dragoman_serving.engine.sentence import SearchOptions
from dragoman_training.network.architecture import NEVER
from dragoman_training.network.attention_weights import look
from dragoman_training.network.transformer import DecoderLayer, Transformer
from dragoman_training.oracle.constraints import Options
from dragoman_training.oracle.search import greedy_search, search
from dragoman_training.run import checkpoint
from dragoman_training.text.examples import pad

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import CheckedPrecision, Manifest
from dragoman.kernel.tensors import (
    ATTENTION_GRAPH,
    ATTENTION_NAMES,
    REORDER_STATES,
    best_name,
    past_names,
    present_names,
)
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
    in_turn,
    int8_outcomes,
    not_comparable,
    translate,
)

_SAMPLE = 8
"""Number of sentences whose values are compared; tokens are compared for all sentences."""


def verify(
    bundle: Path,
    texts: Sequence[tuple[str, str]],
    exact: bool | None = None,
    graphs: Graphs | None = None,
) -> Iterator[Outcome]:
    """Compare a bundle's graphs and the engine over them with PyTorch on the same weights.

    Args:
        bundle: folder of a bundle.
        texts: sentences, each with its target language.
        exact: whether ONNX Runtime's 8-bit products are exact; None: as on this CPU.
        graphs: the bundle's graphs, if some of them are loaded already.

    Yields:
        The outcome of each check.

    Raises:
        UsageError: the bundle is damaged, or there are no sentences.
    """
    exact = exact_int8_products() if exact is None else exact
    if graphs is None:
        graphs = Graphs(bundle, Manifest.load(bundle))
    manifest = graphs.manifest
    loaded = checkpoint.load(bundle)
    encoded = [(loaded.tokenizer.encode_source(text, target), target) for text, target in texts]
    limit = manifest.limits.max_source_tokens
    fitting = [(ids, target) for ids, target in encoded if len(ids) <= limit]
    if not fitting:
        raise UsageError("no sentences to compare on")
    left_out = len(encoded) - len(fitting)
    sources = [ids for ids, _ in fitting]
    yield Outcome("sentences", True, f"{len(sources)} compared, {left_out} skipped as too long")
    interfaces = [graphs.interface(name) for name in graph_names(manifest)]
    yield from interfaces
    if not all(outcome.passed for outcome in interfaces):
        return  # graphs with a wrong interface cannot be run
    limits = [manifest.limits.target_tokens(len(ids)) for ids in sources]
    greedy = [hypothesis.ids for hypothesis in greedy_search(loaded.model, sources, limits)]
    targets = [target for _, target in fitting]
    pairs = zip(sources, greedy, strict=True)
    sample = in_turn(list(zip(pairs, targets, strict=True)))[:_SAMPLE]
    yield from _Values(loaded.model, graphs, sample).outcomes(exact)
    yield from _tokens(loaded.model, graphs, sources, limits, greedy, exact)


class _Values:
    """Runs each graph and the PyTorch model on a few sentences."""

    def __init__(
        self, model: Transformer, graphs: Graphs, sample: Sequence[tuple[Ids, Ids]]
    ) -> None:
        """Takes sources, each with the model's translation."""
        self._manifest, self._model, self._graphs = graphs.manifest, model, graphs
        manifest = graphs.manifest
        sources, tokens = zip(*sample, strict=True)
        self._src_ids = pad(sources)
        self._src_lengths = np.array([len(ids) for ids in sources])
        end = manifest.special_ids.end
        # No step reads the position after the last token that may be generated.
        most = manifest.limits.max_target_tokens
        self._tgt_in = pad([[BEGIN_ID, *ids][:most] for ids in tokens])
        self._tgt_out = pad([[*ids, end][:most] for ids in tokens])
        self._tgt_keep_mask = self._tgt_out != PAD_ID
        with torch.no_grad():
            self._src_keep_mask = self._src_ids != PAD_ID
            self._memory = model.encode(self._src_ids, self._src_keep_mask)
            hidden = model.decode(self._tgt_in, self._memory, self._src_keep_mask)
            self._logits = model.project(hidden)  # [B, T, V]
        self._sayable = _sayable(model)

    def outcomes(self, exact: bool) -> Iterator[Outcome]:
        suffixes: dict[CheckedPrecision, str] = {"fp32": "", "int8": "_int8"}
        for precision, suffix in suffixes.items():
            checks = f"encoder{suffix}: values", f"decoder{suffix}: cached step = full prefix"
            if precision == "int8" and not exact:
                yield from map(not_comparable, checks)
                continue
            cross = self._graphs[f"encoder{suffix}"].run(
                None, {"input_ids": self._src_ids.numpy(), "src_lengths": self._src_lengths}
            )
            yield self._encoder(checks[0], cross, precision)
            logits = cached_logits(
                self._graphs[f"decoder{suffix}"],
                manifest=self._manifest,
                cross=cross,
                src_lengths=self._src_lengths,
                tgt_in=self._tgt_in.numpy(),
            )
            actual, right = logits[..., self._sayable], self._logits[..., self._sayable]
            yield self._compare(checks[1], actual, right, self._tgt_keep_mask, precision)
        yield from self._best()
        yield from self._reorder()
        yield self._score()
        if ATTENTION_GRAPH in self._graphs:
            yield from self._attention()

    def _compare(
        self,
        check: str,
        actual: Floats,
        right: torch.Tensor,
        keep: torch.Tensor,
        precision: CheckedPrecision = "fp32",
    ) -> Outcome:
        """Compare values where `keep`, which has the leading dimensions, is true."""
        expected = right[keep].numpy()
        return compare(check, actual[keep.numpy()], expected, precision)

    def _encoder(self, check: str, cross: Sequence[Floats], precision: CheckedPrecision) -> Outcome:
        heads, right = self._model.config.heads, []
        for layer in self._model.decoder_layers:
            assert isinstance(layer, DecoderLayer)
            joined = layer.cross_attention.key_value(self._memory).detach()
            # [B, S, E] to [B, S, H, D] to [B, H, S, D]
            right += [
                part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in joined.chunk(2, -1)
            ]
        # Positions first, so that padding can be masked.
        actual = np.stack(cross, axis=-1).transpose(0, 2, 1, 3, 4)
        expected = torch.stack(right, dim=-1).transpose(1, 2)
        return self._compare(check, actual, expected, self._src_keep_mask, precision)

    def _best(self) -> Iterator[Outcome]:
        """Top-k of the model's own logits by the graph."""
        flat = self._logits.reshape(-1, self._logits.shape[-1])  # [B x T, V]
        keep = self._tgt_keep_mask.reshape(-1)
        log_probs = flat.log_softmax(dim=-1)
        for k in self._manifest.limits.best_sizes:
            name = best_name(k)
            scores, ids = self._graphs[name].run(None, {"logits": flat.numpy()})
            right = log_probs.gather(-1, torch.from_numpy(ids))
            yield self._compare(f"{name}: scores of its ids", scores, right, keep)
            best = log_probs.topk(k).values
            yield self._compare(f"{name}: they are the best", scores, best, keep)

    def _reorder(self) -> Iterator[Outcome]:
        sizes = self._manifest.dimensions
        layers, shape = sizes.decoder_layers, (sizes.heads, 7, sizes.head_size)
        yield self._reordered("reorder", past_names(layers), present_names(layers), shape)
        if sizes.is_recurrent:
            names = past_names(layers, True), present_names(layers, True)
            yield self._reordered(REORDER_STATES, *names, (sizes.model_size,))

    def _reordered(
        self, graph: str, names: list[str], next_names: list[str], shape: tuple[int, ...]
    ) -> Outcome:
        """Compare rows [5, *shape] that a graph reorders with NumPy's."""
        random = np.random.default_rng(0)
        past = {name: random.standard_normal((5, *shape), dtype=np.float32) for name in names}
        rows = np.array([4, 4, 0, 2])
        present = self._graphs[graph].run(next_names, {"rows": rows, **past})
        equal = all(
            (reordered == past[name][rows]).all()
            for name, reordered in zip(names, present, strict=True)
        )
        return Outcome(f"{graph}: values", equal, f"rows {rows.tolist()} of 5")

    def _score(self) -> Outcome:
        log_probs, attention = self._graphs["score"].run(
            None,
            {
                "input_ids": self._src_ids.numpy(),
                "src_lengths": self._src_lengths,
                "tgt_in_ids": self._tgt_in.numpy(),
                "tgt_out_ids": self._tgt_out.numpy(),
            },
        )
        sums = attention.sum(axis=-1)
        if not np.allclose(sums, 1.0, atol=1e-4):
            return Outcome("score: values", False, "attention does not sum to one")
        right = self._logits.log_softmax(dim=-1).gather(-1, self._tgt_out[..., None])[..., 0]
        return self._compare("score: values", log_probs, right, self._tgt_keep_mask)

    def _attention(self) -> Iterator[Outcome]:
        attention = self._graphs[ATTENTION_GRAPH].run(
            ATTENTION_NAMES,
            {
                "input_ids": self._src_ids.numpy(),
                "src_lengths": self._src_lengths,
                "tgt_in_ids": self._tgt_in.numpy(),
            },
        )
        right = look(self._model, self._src_ids, self._src_keep_mask, self._tgt_in)
        for name, weights, expected in zip(ATTENTION_NAMES, attention, right, strict=True):
            if not weights.size and weights.shape == tuple(expected.shape):
                continue  # a recurrent decoder has no self-attention
            queries = self._src_keep_mask if name.startswith("encoder") else self._tgt_keep_mask
            # [B, L, H, T, S] to [B, T, L, H, S], only queries that are not padding
            by_query = weights.transpose(0, 3, 1, 2, 4)
            check = f"attention: {name}"
            yield self._compare(check, by_query, expected.permute(0, 3, 1, 2, 4), queries)


def _tokens(
    model: Transformer,
    graphs: Graphs,
    sources: Sequence[Ids],
    limits: Sequence[int],
    greedy: Sequence[Ids],
    exact: bool,
) -> Iterator[Outcome]:
    """Compare the engine's tokens with the oracle's: greedy and beam 4; int8 only greedy."""
    manifest = graphs.manifest
    alpha = manifest.limits.length_penalty
    beams = search(model, sources, limits, Options(4, alpha))
    with engine(graphs.network("fp32"), manifest) as running:
        for name, options, right in (
            ("greedy", SearchOptions(1, 0.0), greedy),
            ("beam 4", SearchOptions(4, alpha), [best.ids for best, *_ in beams]),
        ):
            tokens = translate(running, manifest, sources, options)
            equal = sum(map(operator.eq, tokens, right))
            detail = f"{equal} of {len(sources)} sentences equal"
            yield Outcome(f"tokens: {name}", equal == len(sources), detail)
    logits_after = partial(_logits_after, model)
    yield from int8_outcomes(graphs, sources, greedy, logits_after, exact)


@torch.no_grad()
def _logits_after(model: Transformer, source: Ids, prefix: Ids) -> Floats:
    """See `LogitsAfter`."""
    src_ids = torch.tensor([source])
    keep_mask = torch.ones_like(src_ids, dtype=torch.bool)
    memory = model.encode(src_ids, keep_mask)
    projected = model.project(model.decode(torch.tensor([prefix]), memory, keep_mask))[0, -1]
    logits: Floats = projected.numpy()
    return logits


def _sayable(model: Transformer) -> torch.Tensor:
    """Which entries [V] may be generated; the others' scores would hide differences."""
    if not model.config.output_bias:
        return torch.ones(model.config.vocab_size, dtype=torch.bool)
    return model.output_bias.detach() > NEVER / 2
