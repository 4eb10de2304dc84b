"""Holding a bundle against PyTorch: names, shapes, values, then the tokens of real sentences.

All failures are reported together; only where names, types or shapes are wrong do the checks that
would run the graphs stay out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from onnxruntime import InferenceSession

from dragoman.errors import UsageError
from dragoman.manifest import GraphEntry, Manifest
from dragoman.tensors import cross_names, past_names, present_names
from dragoman.text import BEGIN_ID, PAD_ID
from serving.engine.cache import Cache
from serving.engine.engine import Engine
from serving.engine.onnx_session import OnnxSession, load_graph
from serving.engine.sentence import SearchOptions, Sentence
from training import checkpoint
from training.data import pad
from training.model import DecoderLayer, Transformer
from training.search import beam_search, greedy_search

TOLERANCE = {"fp32": 2e-4, "fp16": 2e-2, "bf16": 1e-1}
"""Largest difference of a value, absolute and relative to the largest of its tensor."""

GRAPHS = ("encoder", "decoder_logits", "decoder_topk", "reorder", "score")
"""What a bundle must hold."""
_ONNX_TYPES = {"float32": "tensor(float)", "int64": "tensor(int64)"}
_SAMPLE = 8
"""Sentences whose values are compared; tokens are compared for all."""


@dataclass(frozen=True)
class Outcome:
    """One check: what it looked at, whether it held, and the figure."""

    check: str
    passed: bool
    detail: str


def verify(bundle: Path, texts: Sequence[Sequence[str]]) -> Iterator[Outcome]:
    """Compare a bundle's graphs and the engine over them with PyTorch on the same weights.

    Args:
        bundle: folder of a bundle.
        texts: sentences of each language, in the order of the manifest's languages.

    Yields:
        The outcome of each check.

    Raises:
        UsageError: the bundle is damaged, or there are no sentences.
    """
    manifest = Manifest.load(bundle)
    loaded = checkpoint.load(bundle)
    sources = [
        loaded.tokenizer.encode_source(text, manifest.languages[1 - side])
        for side, sentences in enumerate(texts)
        for text in sentences
    ]
    limit = manifest.limits.max_source_tokens
    fitting = [ids for ids in sources if len(ids) <= limit]
    if not fitting:
        raise UsageError("no sentences to compare on")
    left_out = len(sources) - len(fitting)
    sources = fitting
    yield Outcome("sentences", True, f"{len(sources)} compared, {left_out} left out as too long")
    graphs = {name: load_graph(bundle, manifest, name) for name in GRAPHS}
    interfaces = [_interface(name, graph, manifest.graphs[name]) for name, graph in graphs.items()]
    yield from interfaces
    if not all(outcome.passed for outcome in interfaces):
        return  # graphs of another interface cannot even be run
    values = _Values(manifest, loaded.model, graphs, sources[:_SAMPLE])
    yield from values.outcomes()
    yield from _tokens(bundle, manifest, loaded.model, sources)


def _interface(name: str, graph: InferenceSession, entry: GraphEntry) -> Outcome:
    """Names, element types and shapes."""
    found_names = [t.name for t in (*graph.get_inputs(), *graph.get_outputs())]
    listed_names = [t.name for t in (*entry.inputs, *entry.outputs)]
    check = f"{name}: names, types, shapes"
    if found_names != listed_names:
        return Outcome(check, False, f"{found_names}, listed {listed_names}")
    wrong = []
    for found, listed in zip(
        [*graph.get_inputs(), *graph.get_outputs()], [*entry.inputs, *entry.outputs], strict=True
    ):
        shape = tuple(map(str, found.shape))
        if found.type != _ONNX_TYPES[listed.dtype] or shape != listed.shape:
            wrong.append(
                f"{found.name}: {found.type} {shape}, listed {listed.dtype} {listed.shape}"
            )
    tensors = len(entry.inputs) + len(entry.outputs)
    return Outcome(check, not wrong, "; ".join(wrong) or f"{tensors} tensors")


class _Values:
    """Runs each graph beside the model on a few sentences."""

    def __init__(
        self,
        manifest: Manifest,
        model: Transformer,
        graphs: dict[str, InferenceSession],
        sources: Sequence[Sequence[int]],
    ) -> None:
        self._manifest, self._model, self._graphs = manifest, model, graphs
        self._tolerance = TOLERANCE[manifest.precision]
        limits = [manifest.limits.target_tokens(len(ids)) for ids in sources]
        found = [hypothesis.ids for hypothesis in greedy_search(model, sources, limits)]
        self._src_ids = pad(sources)
        self._src_lengths = np.array([len(ids) for ids in sources])
        end = manifest.special_ids.end
        self._tgt_in = pad([[BEGIN_ID, *ids] for ids in found])
        self._tgt_out = pad([[*ids, end] for ids in found])
        with torch.no_grad():
            self._src_keep_mask = self._src_ids != PAD_ID
            self._memory = model.encode(self._src_ids, self._src_keep_mask)
            hidden = model.decode(self._tgt_in, self._memory, self._src_keep_mask)
            self._logits = model.project(hidden)  # [B, T, V]

    def outcomes(self) -> Iterator[Outcome]:
        cross = self._graphs["encoder"].run(
            None, {"input_ids": self._src_ids.numpy(), "src_lengths": self._src_lengths}
        )
        yield self._encoder(cross)
        yield from self._decoders(cross)
        yield self._reorder()
        yield self._score()

    def _compare(
        self, check: str, found: npt.NDArray[np.float32], right: torch.Tensor, keep: torch.Tensor
    ) -> Outcome:
        """Compare where `keep`, which covers the leading dimensions, is true."""
        expected, got = right[keep], torch.from_numpy(found)[keep]
        difference = (expected - got).abs().max().item()
        bound = self._tolerance * max(1.0, expected.abs().max().item())
        detail = f"largest difference {difference:.1e}, allowed {bound:.1e}"
        return Outcome(check, difference <= bound, detail)  # NaN is not <=

    def _encoder(self, cross: Sequence[npt.NDArray[np.float32]]) -> Outcome:
        heads, right = self._model.config.heads, []
        for layer in self._model.decoder_layers:
            assert isinstance(layer, DecoderLayer)
            joined = layer.cross_attention.key_value(self._memory).detach()
            # [B, S, E] to [B, S, H, D] to [B, H, S, D]
            right += [
                part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in joined.chunk(2, -1)
            ]
        # Positions first, so that padding can be left out.
        found = np.stack(cross, axis=-1).transpose(0, 2, 1, 3, 4)
        expected = torch.stack(right, dim=-1).transpose(1, 2)
        return self._compare("encoder: values", found, expected, self._src_keep_mask)

    def _decoders(self, cross: list[npt.NDArray[np.float32]]) -> Iterator[Outcome]:
        """Cached steps against whole prefixes, with each head."""
        layers = self._manifest.dimensions.decoder_layers
        cache = Cache.begin(cross, self._src_lengths)
        length = self._tgt_in.size(1)
        while cache.capacity < length:
            cache.grow()
        logits, top_scores, top_ids = [], [], []
        for position in range(length):
            inputs = {
                "input_ids": self._tgt_in[:, position : position + 1].numpy(),
                "positions": np.full(cache.rows, position),
                "src_lengths": self._src_lengths,
                **dict(zip(cross_names(layers), cross, strict=True)),
                **dict(zip(past_names(layers), cache.past, strict=True)),
            }
            *_, scores, ids = self._graphs["decoder_topk"].run(None, inputs)
            top_scores.append(scores)
            top_ids.append(ids)
            *present, step = self._graphs["decoder_logits"].run(None, inputs)
            logits.append(step)
            cache.past = present
        keep = self._tgt_out != PAD_ID
        found = np.stack(logits, axis=1)
        yield self._compare("decoder_logits: cached step = full prefix", found, self._logits, keep)
        log_probs = self._logits.log_softmax(dim=-1)
        right = log_probs.gather(-1, torch.from_numpy(np.stack(top_ids, axis=1)))
        best = log_probs.topk(self._manifest.limits.top_k).values
        found = np.stack(top_scores, axis=1)
        yield self._compare("decoder_topk: scores of its ids", found, right, keep)
        yield self._compare("decoder_topk: they are the best", found, best, keep)

    def _reorder(self) -> Outcome:
        sizes = self._manifest.dimensions
        random = np.random.default_rng(0)
        shape = (5, sizes.heads, 7, sizes.head_size)
        names = past_names(sizes.decoder_layers)
        past = {name: random.standard_normal(shape, dtype=np.float32) for name in names}
        rows = np.array([4, 4, 0, 2])
        graph = self._graphs["reorder"]
        present = graph.run(present_names(sizes.decoder_layers), {"rows": rows, **past})
        equal = all(
            (found == past[name][rows]).all() for name, found in zip(names, present, strict=True)
        )
        return Outcome("reorder: values", equal, f"rows {rows.tolist()} of 5")

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
        return self._compare("score: values", log_probs, right, self._tgt_out != PAD_ID)


def _tokens(
    bundle: Path, manifest: Manifest, model: Transformer, sources: Sequence[Sequence[int]]
) -> Iterator[Outcome]:
    """The engine's tokens against the oracle's, greedy and beam 4."""
    limits = [manifest.limits.target_tokens(len(ids)) for ids in sources]
    engine = Engine([OnnxSession(bundle, manifest)], manifest.special_ids)
    try:
        for width, alpha in ((1, 0.0), (4, 0.6)):
            if width == 1:
                right = greedy_search(model, sources, limits)
            else:
                right = beam_search(model, sources, limits, width, alpha)
            options = SearchOptions(width, alpha)
            futures = engine.submit(
                [
                    Sentence(tuple(ids), limit, options)
                    for ids, limit in zip(sources, limits, strict=True)
                ]
            )
            found = [future.result() for future in futures]
            equal = sum(a.ids == b.ids for a, b in zip(found, right, strict=True))
            check = f"tokens: {'greedy' if width == 1 else f'beam {width}'}"
            detail = f"{equal} of {len(sources)} sentences equal"
            yield Outcome(check, equal == len(sources), detail)
    finally:
        engine.close()
