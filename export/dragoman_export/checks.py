"""Shared parts of the checks of a bundle, whatever it is compared with; needs no PyTorch."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from dragoman_serving.engine.batching.engine import Engine
from dragoman_serving.engine.compiled.compiled_network import NativeNetwork
from dragoman_serving.engine.compiled.weights import sizes_obstacle
from dragoman_serving.engine.network import Network
from dragoman_serving.engine.runtimes.onnx_session import OnnxSession, load_graph
from dragoman_serving.engine.runtimes.session_decoding import Sessions
from dragoman_serving.engine.sentence import SearchOptions, Sentence
from dragoman_serving.engine.settings import Precision
from dragoman_training.network.architecture import NEVER
from onnxruntime import InferenceSession

from dragoman.kernel.manifest import CheckedPrecision, GraphEntry, Manifest
from dragoman.kernel.tensors import (
    ATTENTION_GRAPH,
    REORDER_STATES,
    best_name,
    cross_names,
    past_names,
)
from dragoman.kernel.text import BEGIN_ID, END_ID

T = TypeVar("T")
Floats = npt.NDArray[np.float32]
Ids = Sequence[int]
LogitsAfter = Callable[[Ids, Ids], Floats]
"""Logits [V] of the next token, given a source and a prefix of its translation, in fp32."""

TOLERANCE = {"fp32": 2e-4, "fp16": 2e-2, "bf16": 1e-1, "int8": 5e-2}
"""Largest allowed difference of a value, absolute and relative to its tensor's largest value."""
GRAPHS = ("encoder", "encoder_int8", "decoder", "decoder_int8", "reorder", "score")
"""Graphs that a bundle must have, besides top-k; `attention` is optional."""
_ONNX_TYPES = {"float32": "tensor(float)", "int64": "tensor(int64)"}


@dataclass(frozen=True)
class Outcome:
    """Result of one check.

    Attributes:
        check: what was checked.
        passed: whether it passed; None if this CPU cannot run the check.
        detail: figures, or the reason.
        precision: the precision that must not be served if the check failed.
    """

    check: str
    passed: bool | None
    detail: str
    precision: CheckedPrecision = "fp32"

    @property
    def failed(self) -> bool:
        """Whether the check was run and did not pass."""
        return self.passed is False

    def __str__(self) -> str:
        """One line, such as `ok    tokens: greedy: 24 of 24 sentences equal`."""
        verdict = "skip" if self.passed is None else "ok  " if self.passed else "FAIL"
        return f"{verdict}  {self.check}: {self.detail}"


def not_comparable(check: str) -> Outcome:
    """The outcome of a check of the int8 graphs on a CPU where ONNX Runtime's products saturate.

    There the graphs are not served in int8, and the compiled library's own checks decide.
    """
    detail = "not comparable on this CPU: ONNX Runtime's 8-bit products saturate without VNNI"
    return Outcome(check, None, detail, "int8")


def count_failed(outcomes: Iterable[Outcome]) -> dict[CheckedPrecision, int]:
    """Returns the number of failed checks of each precision."""
    failed: dict[CheckedPrecision, int] = {"fp32": 0, "int8": 0}
    for outcome in outcomes:
        failed[outcome.precision] += outcome.failed
    return failed


def graph_names(manifest: Manifest) -> list[str]:
    """The graphs of a bundle that are checked."""
    states = [REORDER_STATES] if manifest.dimensions.is_recurrent else []
    names = [*GRAPHS, *states, *map(best_name, manifest.limits.best_sizes)]
    return [*names, ATTENTION_GRAPH] if ATTENTION_GRAPH in manifest.graphs else names


class Graphs(dict[str, InferenceSession]):
    """The graphs of a bundle by name; each is loaded when it is first used, and then kept."""

    def __init__(self, bundle: Path, manifest: Manifest) -> None:
        """Load nothing yet.

        Args:
            bundle: folder of the bundle.
            manifest: its manifest, checked.
        """
        self.bundle, self.manifest = bundle, manifest

    def __missing__(self, name: str) -> InferenceSession:
        """Load a graph.

        Raises:
            UsageError: it cannot be loaded.
        """
        # Checks load many graphs and run each a few times.
        graph = load_graph(self.bundle, self.manifest, name, spinning=False)
        return self.setdefault(name, graph)

    def interface(self, name: str) -> Outcome:
        """Compare a graph's names, element types and shapes with the manifest."""
        return interface(name, self[name], self.manifest.graphs[name])

    def network(self, precision: Precision) -> Network:
        """The network that runs the graphs of a precision."""
        session = OnnxSession(self.bundle, self.manifest, precision, graphs=self)
        return Sessions(session)


def precision_of(graph: str) -> CheckedPrecision:
    """The precision that a graph is used for."""
    return "int8" if graph.endswith("_int8") else "fp32"


def in_turn(sources: Sequence[tuple[T, str]]) -> list[T]:
    """Sources in turn: the first of each target language, then the second, and so on."""
    by_target: dict[str, list[T]] = {}
    for source, target in sources:
        by_target.setdefault(target, []).append(source)
    turns = itertools.zip_longest(*by_target.values())
    return [source for turn in turns for source in turn if source is not None]


def interface(name: str, graph: InferenceSession, entry: GraphEntry) -> Outcome:
    """Compare names, element types and shapes with the manifest."""
    found_names = [t.name for t in (*graph.get_inputs(), *graph.get_outputs())]
    listed_names = [t.name for t in (*entry.inputs, *entry.outputs)]
    check = f"{name}: names, types, shapes"
    if found_names != listed_names:
        return Outcome(check, False, f"{found_names}, listed {listed_names}", precision_of(name))
    wrong = []
    for tensor, listed in zip(
        [*graph.get_inputs(), *graph.get_outputs()], [*entry.inputs, *entry.outputs], strict=True
    ):
        shape = tuple(map(str, tensor.shape))
        if tensor.type != _ONNX_TYPES[listed.dtype] or shape != listed.shape:
            wrong.append(
                f"{tensor.name}: {tensor.type} {shape}, listed {listed.dtype} {listed.shape}"
            )
    tensors = len(entry.inputs) + len(entry.outputs)
    return Outcome(check, not wrong, "; ".join(wrong) or f"{tensors} tensors", precision_of(name))


def cached_logits(
    graph: InferenceSession,
    manifest: Manifest,
    cross: Sequence[Floats],
    src_lengths: npt.NDArray[np.int64],
    tgt_in: npt.NDArray[np.int64],
) -> Floats:
    """Logits [B, T, V] of prefixes [B, T], step by step with a decoder graph.

    Args:
        graph: the decoder's.
        manifest: of its bundle.
        cross: outputs of the encoder graph.
        src_lengths: lengths of the sources [B].
        tgt_in: ids [B, T], beginning with the start symbol.
    """
    sizes = manifest.dimensions
    rows, length = tgt_in.shape
    names = past_names(sizes.decoder_layers, sizes.is_recurrent)
    shape: tuple[int, ...] = (rows, sizes.heads, length, sizes.head_size)
    if sizes.is_recurrent:
        shape = (rows, sizes.model_size)
    past = [np.zeros(shape, np.float32) for _ in names]
    logits = []
    for position in range(length):
        inputs = {
            "input_ids": tgt_in[:, position],
            "positions": np.full(rows, position),
            "src_lengths": src_lengths,
            **dict(zip(cross_names(sizes.decoder_layers), cross, strict=True)),
            **dict(zip(names, past, strict=True)),
        }
        *past, step = graph.run(None, inputs)
        logits.append(step)
    return np.stack(logits, axis=1)


def compare(
    check: str, actual: Floats, right: Floats, precision: CheckedPrecision = "fp32"
) -> Outcome:
    """Compare arrays of one shape with the tolerance of a precision."""
    difference = float(np.abs(right - actual).max())
    bound = TOLERANCE[precision] * max(1.0, float(np.abs(right).max()))
    detail = f"largest difference {difference:.1e}, allowed {bound:.1e}"
    return Outcome(check, difference <= bound, detail, precision)  # NaN is not <=


def sayable(logits: Floats) -> Floats:
    """The logits [V] of tokens that may be generated; the others would hide differences."""
    return logits[logits > NEVER / 2]


def int8_outcomes(
    graphs: Graphs,
    sources: Sequence[Ids],
    right: Sequence[Ids],
    logits_after: LogitsAfter,
    exact: bool,
) -> Iterator[Outcome]:
    """Check the engine's int8 tokens with every runtime for int8 on this machine.

    Args:
        graphs: of the bundle.
        sources: ids of sentences.
        right: their greedy translations in fp32.
        logits_after: see `LogitsAfter`.
        exact: whether ONNX Runtime's 8-bit products are exact here.
    """
    int8: dict[str, Network] = {}
    bundle, manifest = graphs.bundle, graphs.manifest
    if exact:
        int8["int8"] = graphs.network("int8")
    else:
        yield from map(not_comparable, _token_checks("int8"))
    if sizes_obstacle(manifest.dimensions) is None:
        int8["int8, native"] = NativeNetwork(bundle, manifest)
    for name, network in int8.items():
        yield from _int8_tokens(name, network, manifest, sources, right, logits_after)


def _token_checks(name: str) -> tuple[str, str]:
    """The names of the checks of a network's tokens."""
    return f"tokens: {name}, in a batch as alone", f"tokens: {name}, as the oracle or near it"


def _int8_tokens(
    name: str,
    network: Network,
    manifest: Manifest,
    sources: Sequence[Ids],
    right: Sequence[Ids],
    logits_after: LogitsAfter,
) -> Iterator[Outcome]:
    """Check that batching changes nothing, and that all tokens are correct or nearly so."""
    options = SearchOptions(1, 0.0)
    with engine(network, manifest) as running:
        batched = translate(running, manifest, sources, options)
        alone = [translate(running, manifest, [source], options)[0] for source in sources]
    equal = sum(map(operator.eq, batched, alone))
    detail = f"{equal} of {len(sources)} sentences equal"
    same, near = _token_checks(name)
    yield Outcome(same, equal == len(sources), detail, "int8")
    yield _near(near, sources, batched, right, logits_after)


def _near(
    check: str,
    sources: Sequence[Ids],
    tokens: Sequence[Ids],
    right: Sequence[Ids],
    logits_after: LogitsAfter,
) -> Outcome:
    """Where int8 first chooses another token, the fp32 scores of the two tokens must be close."""
    gaps, bound = [0.0], 0.0
    for source, ours, theirs in zip(sources, tokens, right, strict=True):
        if tuple(ours) == tuple(theirs):
            continue
        ours, theirs = (*ours, END_ID), (*theirs, END_ID)
        first = next(i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b)
        logits = logits_after(source, [BEGIN_ID, *theirs[:first]])
        gaps.append(float(logits[theirs[first]] - logits[ours[first]]))
        largest = float(np.abs(sayable(logits)).max())
        bound = max(bound, TOLERANCE["int8"] * max(1.0, largest))
    equal = sum(map(operator.eq, map(tuple, tokens), map(tuple, right)))
    detail = (
        f"{equal} of {len(sources)} sentences equal; where not, the oracle's logits are at most "
        f"{max(gaps):.2f} apart, allowed {bound:.2f}"
    )
    return Outcome(check, max(gaps) <= bound, detail, "int8")


@contextmanager
def engine(network: Network, manifest: Manifest) -> Iterator[Engine]:
    """An engine for a network; closed at the end."""
    made = Engine(network, manifest.special_ids)
    try:
        yield made
    finally:
        made.close()


def translate(
    running: Engine, manifest: Manifest, sources: Sequence[Ids], options: SearchOptions
) -> list[tuple[int, ...]]:
    """An engine's translations, each with the default length limit for its source."""
    limits = [manifest.limits.target_tokens(len(ids)) for ids in sources]
    sentences = [
        Sentence(tuple(ids), limit, options) for ids, limit in zip(sources, limits, strict=True)
    ]
    return [future.result().ids for future in running.submit(sentences)]
