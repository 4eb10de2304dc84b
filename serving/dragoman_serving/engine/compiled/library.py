"""The compiled library, and its structures, with the same fields as in its headers."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Activation
from dragoman_serving.engine.compiled.cpu import INSTRUCTION_SETS, has_instruction_set

PANEL = 64
"""Outputs per panel. The largest score of each panel is stored; a product has whole panels."""
LANES = 16
"""Outputs per vector."""
VARIABLE = "DRAGOMAN_ISA"
"""Environment variable that forces one of `INSTRUCTION_SETS`."""
_FOLDER = Path(__file__).parent

ACTIVATIONS: tuple[Activation, ...] = ("relu", "silu", "gelu")
"""Activations in the order of `Activation` in `model.h`."""
Pointer = ctypes.c_void_p
Number = ctypes.c_int64

MOST_BEST = 1024
"""Maximum K of top-k."""
MOST_LAYERS = 64
MOST_HEAD_SIZE = 256
BLOCK = 16
"""Tokens per block of keys or values."""
ENCODED_TOGETHER = 128
"""Tokens of an encoder run, unless a sentence has more."""
SCORED_TOGETHER = 48
"""Steps of given translations with their scores in memory at the same time."""
TOKEN_BYTES = 8
"""Bytes of a token's key or value in one head, in addition to its codes."""
SECTIONS = (
    *("products", "logits", "attention", "norms", "quantising", "cache"),
    *("ranking", "search", "step"),
)
"""Parts of a step for which time is measured; the last is the whole step."""


class Product(ctypes.Structure):
    """See `model.h`."""

    _fields_ = (
        ("codes", Pointer),
        ("sums", Pointer),
        ("scales", Pointer),
        ("biases", Pointer),
        ("inputs", Number),
        ("outputs", Number),
    )


class Sizes(ctypes.Structure):
    """See `model.h`."""

    _fields_ = (
        ("model_size", Number),
        ("feed_forward_size", Number),
        ("heads", Number),
        ("head_size", Number),
        ("encoder_layers", Number),
        ("decoder_layers", Number),
        ("longest", Number),
        ("vocab_size", Number),
        ("src_ids", Number),
        ("own_src_embedding", Number),
        ("embedding_in_codes", Number),
        ("norm_first", Number),
        ("activation", Number),
        ("has_ssru", Number),
        ("inclusive_rates", Number),
        ("norm_epsilon", ctypes.c_double),
    )


class Sources(ctypes.Structure):
    """See `transformer.h`."""

    _fields_ = (
        ("sentences", Number),
        ("tokens", Number),
        ("ids", Pointer),
        ("lengths", Pointer),
        ("first", Number),
        ("room", Number),
        ("cross", Pointer),
    )


class Rows(ctypes.Structure):
    """See `transformer.h`."""

    _fields_ = (
        ("sentences", Number),
        ("width", Number),
        ("ids", Pointer),
        ("positions", Pointer),
        ("src_lengths", Pointer),
        ("src_room", Number),
        ("room", Number),
        ("cross", Pointer),
        ("past", Pointer),
        ("cells", Pointer),
        ("ticks", Pointer),
        ("aligning", Pointer),
        ("alignments", Pointer),
        ("shortlists", Pointer),
        ("steps", Number),
    )


class Pairs(ctypes.Structure):
    """See `transformer.h`."""

    _fields_ = (
        ("pairs", Number),
        ("steps", Number),
        ("lengths", Pointer),
        ("ids", Pointer),
        ("targets", Pointer),
        ("src_lengths", Pointer),
        ("src_room", Number),
        ("room", Number),
        ("cross", Pointer),
        ("keys", Pointer),
        ("values", Pointer),
        ("cells", Pointer),
        ("aligning", Pointer),
        ("alignments", Pointer),
        ("scores", Pointer),
        ("log_probs", Pointer),
        ("ticks", Pointer),
    )


class Suppressed(ctypes.Structure):
    """See `search_data.h`."""

    _fields_ = (
        ("text", Pointer),
        ("text_begins", Pointer),
        ("always", Number),
        ("always_ids", Pointer),
        ("beginnings", Number),
        ("beginning_text", Pointer),
        ("beginning_begins", Pointer),
        ("ids", Pointer),
        ("ids_begins", Pointer),
    )


class Constraints(ctypes.Structure):
    """See `search_data.h`."""

    _fields_ = (
        ("prefix_length", Number),
        ("prefix", Pointer),
        ("fewest", Number),
        ("ngram_size", Number),
        ("enough", Number),
        ("branches", Number),
        ("first_branch", Number),
        ("scored", Number),
        ("repetition_penalty", ctypes.c_double),
        ("numbers", Pointer),
        ("temperature", ctypes.c_double),
        ("top_k", Number),
        ("top_p", ctypes.c_double),
        ("suppressed", Pointer),
        ("not_first", Pointer),
        ("not_first_size", Number),
    )


TOKEN = np.dtype(
    [("id", np.int32), ("parent", np.int32), ("row", np.int32), ("log_prob", np.float32)]
)
"""`Token` of `search_data.h`."""
FINISHED = np.dtype(
    [
        ("merit", np.float64),
        *(("log_prob", np.float32), ("end_log_prob", np.float32)),
        *((name, np.int32) for name in ("index", "length", "complete", "end_row")),
    ]
)
"""`Finished` of `search_data.h`."""


class Searches(ctypes.Structure):
    """See `search_data.h`."""

    _fields_ = (
        ("slots", Number),
        ("width", Number),
        ("branches", Number),
        ("capacity", Number),
        ("end_id", Number),
        ("panels", Number),
        ("constraints", Pointer),
        ("limits", Pointer),
        ("alphas", Pointer),
        ("lengths", Pointer),
        ("live", Pointer),
        ("scores", Pointer),
        ("rows", Pointer),
        ("tokens", Pointer),
        ("ended", Pointer),
        ("kept", Pointer),
        ("finished", Pointer),
        ("top_scores", Pointer),
        ("top_log_probs", Pointer),
        ("top_ids", Pointer),
        ("copies", Pointer),
        ("done", Pointer),
        ("history", Pointer),
        ("history_scores", Pointer),
        ("of_panels", Pointer),
    )


class SearchResult(ctypes.Structure):
    """See `search_data.h`."""

    _fields_ = (("length", Number), ("complete", Number), ("log_prob", ctypes.c_double))


class Library:
    """The compiled functions, which do not fail.

    Long-running functions release the GIL. The others keep it, because getting it back could take
    longer than their own work.
    """

    def __init__(self, path: Path) -> None:
        """Load a shared library.

        Raises:
            UsageError: it was compiled from other sources.
        """
        loaded, quick = ctypes.CDLL(str(path)), ctypes.PyDLL(str(path))
        if not _agrees(loaded):
            raise UsageError(f"{path}: was compiled from other sources: install Dragoman again")
        model, rows, searches = Pointer, ctypes.POINTER(Rows), ctypes.POINTER(Searches)
        self.model_bytes = _declared(quick.dragoman_model_bytes, Number)
        self.find_weights = _declared(quick.dragoman_find_weights, Number, Pointer, model)
        self.encode = _declared(
            loaded.dragoman_encode, None, model, ctypes.POINTER(Sources), Pointer, Pointer
        )
        self.decode = _declared(
            loaded.dragoman_decode,
            Number,
            model,
            rows,
            searches,
            Pointer,
            Pointer,
            Pointer,
            ctypes.POINTER(Number),
            Number,
        )
        self.best = _declared(
            loaded.dragoman_best, None, Pointer, Number, Number, Number, Pointer, Pointer
        )
        self.score = _declared(loaded.dragoman_score, None, model, ctypes.POINTER(Pairs), Pointer)
        self.log_softmax = _declared(
            loaded.dragoman_log_softmax, None, Pointer, Number, Number, Number, Pointer
        )
        self.lay_out = _declared(quick.dragoman_lay_out, None, Pointer, Number, Number, Pointer)
        self.scratch_bytes = _declared(quick.dragoman_scratch_bytes, Number, model, Number)
        self.clock = _declared(quick.dragoman_clock, Number)
        self.leave = _declared(quick.dragoman_leave, None, model, rows, searches, Number)
        self.longest = _declared(quick.dragoman_longest, Number, rows)
        self.advance = _declared(
            quick.dragoman_advance, Number, searches, Pointer, Pointer, Pointer
        )
        self.result = _declared(
            quick.dragoman_result,
            None,
            searches,
            Number,
            Number,
            Pointer,
            Pointer,
            Pointer,
            ctypes.POINTER(SearchResult),
        )
        self.leave_search = _declared(quick.dragoman_leave_search, None, searches, Number)
        self.helpers_bytes = _declared(quick.dragoman_helpers_bytes, Number)
        self.start_helpers = _declared(quick.dragoman_start_helpers, None, Pointer, Number)


def _declared(function: Any, result: Any, *arguments: Any) -> Any:
    """Sets the types of a function's result and arguments, and returns it."""
    function.argtypes, function.restype = arguments, result
    return function


@cache
def load() -> Library:
    """Load the library for the chosen instruction set, once.

    Raises:
        UsageError: it was not compiled, it was compiled from other sources, or the environment
            forces an instruction set that cannot be used here.
    """
    chosen = choose_instruction_set()
    if chosen is None:
        raise UsageError("the engine was not compiled: install Dragoman again")
    return Library(_path(chosen))


@cache
def helpers(count: int) -> npt.NDArray[np.uint8]:
    """Start threads that help with work that is alone; returns the structure `Helpers`.

    All models of the process share them.

    Args:
        count: number of threads; the compiled code has a smaller maximum.
    """
    library = load()
    memory = np.zeros(library.helpers_bytes(), np.uint8)
    library.start_helpers(memory.ctypes.data, count)
    return memory


def _agrees(loaded: ctypes.CDLL) -> bool:
    """Whether a library has the same structures and constants as this module."""
    ours = [
        *map(ctypes.sizeof, (Sizes, Product, Sources, Rows, Searches, SearchResult)),
        *(TOKEN.itemsize, FINISHED.itemsize),
        *map(ctypes.sizeof, (Constraints, Suppressed, Pairs)),
        *(PANEL, MOST_BEST, MOST_LAYERS, MOST_HEAD_SIZE, BLOCK),
        *(ENCODED_TOGETHER, SCORED_TOGETHER, len(SECTIONS)),
    ]
    theirs = (Number * len(ours))()
    try:
        loaded.dragoman_agreement(theirs)
    except AttributeError:
        return False
    return list(theirs) == ours


def choose_instruction_set() -> str | None:
    """Returns the fastest instruction set that this CPU has and the library was compiled for.

    Raises:
        UsageError: the environment forces one that cannot be used here.
    """
    if forced := os.environ.get(VARIABLE):
        _check_forced(forced)
        return forced
    return next(iter(usable_instruction_sets()), None)


def usable_instruction_sets() -> list[str]:
    """Returns the CPU's instruction sets that the library was compiled for, fastest first."""
    return [name for name in INSTRUCTION_SETS if has_instruction_set(name) and is_compiled(name)]


def is_compiled(instruction_set: str) -> bool:
    """Whether the library was compiled for an instruction set when the project was installed."""
    return _path(instruction_set).exists()


def _check_forced(name: str) -> None:
    if name not in INSTRUCTION_SETS:
        raise UsageError(f"{VARIABLE} is {name!r}: give one of {', '.join(INSTRUCTION_SETS)}")
    if not has_instruction_set(name):
        known = ", ".join(usable_instruction_sets()) or "none"
        raise UsageError(f"{VARIABLE} is {name}, which this CPU lacks; it can use {known}")
    if not is_compiled(name):
        raise UsageError(f"{VARIABLE} is {name}, but that library was not compiled")


def _path(instruction_set: str) -> Path:
    return _FOLDER / f"_kernels_{instruction_set}.so"
