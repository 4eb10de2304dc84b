"""A model's weights for the compiled code, made once for a bundle, and kept.

`coding` makes a block from a checkpoint, `kept_block` keeps it in a file and maps it.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from dragoman.kernel import manifest
from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Activation, Dimensions
from dragoman.kernel.replacement import KEPT_PREFIX, file_state
from dragoman_serving.engine.compiled import library
from dragoman_serving.engine.compiled.coding import CODING_VERSION, Array, Tensors, write_block
from dragoman_serving.engine.compiled.kept_block import (
    Block,
    Recipe,
    Write,
    load_block,
    user_folder,
)
from dragoman_serving.engine.compiled.library import (
    ACTIVATIONS,
    MOST_HEAD_SIZE,
    MOST_LAYERS,
    Sizes,
)

_MULTIPLE, _HEAD_MULTIPLE = 64, 16
"""Sizes must be multiples of these, so that there are only whole vectors."""
_NAME_DIGITS = 16
"""Digits of a digest in a file name."""


class NativeWeights:
    """A model's quantized weights, and the structure that points into them.

    Attributes:
        block: block of memory, made by `coding.write_block`.
        sizes: sizes of the model.
        address: address of the structure, valid as long as this object lives.
    """

    def __init__(self, block: Block) -> None:
        """Find the arrays of a block that `coding.write_block` made."""
        loaded = library.load()
        self.block = block
        self._model = ctypes.create_string_buffer(loaded.model_bytes())
        self.address = ctypes.addressof(self._model)
        self.sizes = Sizes.from_buffer_copy(block[: ctypes.sizeof(Sizes)].tobytes())
        loaded.find_weights(block.ctypes.data, self.address)


def load_weights(
    path: Path,
    dimensions: Dimensions,
    longest: int,
    activation: Activation = "relu",
    sha256: str | None = None,
) -> NativeWeights:
    """Load a model's kept quantized weights, or quantize them.

    Args:
        path: a bundle's or checkpoint's `model.safetensors`.
        dimensions: dimensions of the network.
        longest: maximum tokens of a sentence, on either side.
        activation: activation of the feed-forward layers.
        sha256: checked SHA-256 of the file; None: do not keep the quantized weights.

    Raises:
        UsageError: weights cannot be read or are missing, or there is a `sizes_obstacle`.
    """
    if obstacle := sizes_obstacle(dimensions):
        raise UsageError(f"{path}: {obstacle}")
    sizes = _sizes(dimensions, longest, activation)
    sizes.embedding_in_codes = _open(path).embedding_in_codes
    recipe = _recipe(path, sizes, sha256)
    folders = [path.parent, user_folder(path.parent)] if sha256 else []
    try:
        block = load_block(recipe, [folder for folder in folders if folder])
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    return NativeWeights(block)


def coded_bytes(
    dimensions: Dimensions, longest: int, activation: Activation, rows: int = 0
) -> tuple[int, int]:
    """Returns the bytes of a model's quantized weights, and of the scratch memory for `rows`.

    Args:
        dimensions: dimensions of the network.
        longest: maximum tokens of a sentence, on either side.
        activation: activation of the feed-forward layers.
        rows: rows of a batch.
    """
    return _coded_bytes(_sizes(dimensions, longest, activation), rows)


def _coded_bytes(sizes: Sizes, rows: int) -> tuple[int, int]:
    loaded = library.load()
    model = ctypes.create_string_buffer(loaded.model_bytes())
    # Only the sizes are read.
    length = loaded.find_weights(ctypes.addressof(sizes), ctypes.addressof(model))
    return length, loaded.scratch_bytes(ctypes.addressof(model), rows)


def _sizes(dimensions: Dimensions, longest: int, activation: Activation) -> Sizes:
    """The sizes known without the weights: not `norm_first` and `embedding_in_codes`."""
    return Sizes(
        model_size=dimensions.model_size,
        feed_forward_size=dimensions.feed_forward_size,
        heads=dimensions.heads,
        head_size=dimensions.head_size,
        encoder_layers=dimensions.encoder_layers,
        decoder_layers=dimensions.decoder_layers,
        longest=longest,
        vocab_size=dimensions.vocab_size,
        src_ids=dimensions.src_ids,
        own_src_embedding=dimensions.src_vocab_size is not None,
        activation=ACTIVATIONS.index(activation),
        has_ssru=dimensions.decoder == "ssru",
        inclusive_rates=dimensions.position_rates == "inclusive",
        norm_epsilon=dimensions.norm_epsilon,
    )


def _recipe(path: Path, sizes: Sizes, sha256: str | None) -> Recipe:
    length, _ = _coded_bytes(sizes, rows=0)
    layout = hashlib.sha256(bytes(sizes)).hexdigest()[:_NAME_DIGITS]
    name = f"{KEPT_PREFIX}{CODING_VERSION}-{layout}-{(sha256 or '')[:_NAME_DIGITS]}"
    identity = hashlib.sha256(f"{CODING_VERSION} {bytes(sizes).hex()} {sha256}".encode()).digest()
    return Recipe(name, identity, length, partial(_code, path, sizes, length, sha256))


def _code(path: Path, sizes: Sizes, length: int, sha256: str | None, write: Write) -> None:
    """Quantize the weights of a file."""
    from safetensors import SafetensorError

    written = 0

    def write_on(data: Array | bytes) -> None:
        nonlocal written
        written += len(data)
        if written <= length:
            write(data)

    try:
        with _unchanged(path, sha256):
            write_block(_open(path), sizes, write_on)
    except SafetensorError as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    except KeyError as error:
        raise UsageError(f"{path}: has no tensor {error}") from error
    if written != length:
        raise UsageError(f"{path}: its tensors are not of the sizes that the manifest lists")


@contextlib.contextmanager
def _unchanged(path: Path, sha256: str | None) -> Iterator[None]:
    """Check that a file is the expected one, and is not changed, while the block reads it.

    The kept weights outlive this process, so they must not come from a file that was replaced
    meanwhile.
    """
    if sha256 is None:
        yield
        return
    before = file_state(path)
    with ThreadPoolExecutor(max_workers=1) as pool:
        digest = pool.submit(manifest.sha256, path)  # on another core
        yield
    if digest.result() != sha256 or file_state(path) != before:
        raise UsageError(f"{path}: was changed while it was loaded: load it again")


def _open(path: Path) -> Tensors:
    from safetensors import SafetensorError

    try:
        return Tensors(path)
    except (OSError, SafetensorError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error


def sizes_obstacle(sizes: Dimensions) -> str | None:
    """Returns the reason why the compiled code does not support these sizes, or None."""
    for name in ("model_size", "feed_forward_size"):
        if (size := getattr(sizes, name)) % _MULTIPLE:
            return f"{name} is {size}, which is not a multiple of {_MULTIPLE}"
    if sizes.head_size % _HEAD_MULTIPLE:
        return f"head_size is {sizes.head_size}, which is not a multiple of {_HEAD_MULTIPLE}"
    if sizes.head_size > MOST_HEAD_SIZE:
        return f"head_size is {sizes.head_size}, more than {MOST_HEAD_SIZE}"
    if (layers := max(sizes.encoder_layers, sizes.decoder_layers)) > MOST_LAYERS:
        return f"it has {layers} layers, more than {MOST_LAYERS}"
    return None
