"""A model's weights as the compiled code reads them: made once for a bundle, and kept.

`coding` makes a block out of a checkpoint, `kept_block` keeps it in a file and maps it.
"""

from __future__ import annotations

import ctypes
import hashlib
from functools import partial
from pathlib import Path

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Activation, Dimensions
from dragoman.kernel.replacement import KEPT_PREFIX
from dragoman_serving.engine.compiled import library
from dragoman_serving.engine.compiled.coding import CODING_VERSION, Array, Tensors, write_block
from dragoman_serving.engine.compiled.kept_block import (
    Block,
    Recipe,
    Write,
    load_block,
    make_block,
    user_folder,
)
from dragoman_serving.engine.compiled.library import (
    ACTIVATIONS,
    MOST_HEAD_SIZE,
    MOST_LAYERS,
    PANEL,
    Sizes,
)

_MULTIPLE, _HEAD_MULTIPLE = 64, 16
"""Of sizes, so that no vector is cut."""
_NAME_DIGITS = 16
"""Of a digest, in a file's name."""


class NativeWeights:
    """A model's coded weights, and the structure that points into them.

    Attributes:
        block: of memory, as `coding.write_block` made it.
        sizes: of the model.
        address: of the structure, valid as long as this object lives.
    """

    def __init__(self, block: Block) -> None:
        """Find the arrays of a block that `coding.write_block` made."""
        loaded = library.load()
        self.block = block
        self._model = ctypes.create_string_buffer(loaded.model_bytes())
        self.address = ctypes.addressof(self._model)
        self.sizes = Sizes.from_buffer_copy(block[: ctypes.sizeof(Sizes)].tobytes())
        loaded.find_weights(block.ctypes.data, self.address)

    @property
    def panels(self) -> int:
        """Panels of a step's scores."""
        return -(-int(self.sizes.vocab_size) // PANEL)


def load_weights(
    path: Path,
    dimensions: Dimensions,
    longest: int,
    activation: Activation = "relu",
    sha256: str | None = None,
) -> NativeWeights:
    """Read a model's coded weights where they are kept, or code them.

    Args:
        path: a bundle's or checkpoint's `model.safetensors`.
        dimensions: of the network.
        longest: tokens that a sentence may have, on either side.
        activation: inside of the feed-forward layers.
        sha256: of the file, checked; None if nothing is to be kept.

    Raises:
        UsageError: they cannot be read, some are missing, or there is a `sizes_obstacle`.
    """
    if found := sizes_obstacle(dimensions):
        raise UsageError(f"{path}: {found}")
    sizes = _sizes(dimensions, longest, activation)
    recipe = _recipe(path, sizes, sha256 or "")
    if sha256 is None:
        return NativeWeights(make_block(recipe))
    folders = [path.parent, user_folder(path.parent)]
    return NativeWeights(load_block(recipe, [folder for folder in folders if folder]))


def _sizes(dimensions: Dimensions, longest: int, activation: Activation) -> Sizes:
    """What is known without the weights: all but `norm_first`."""
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
    )


def _recipe(path: Path, sizes: Sizes, sha256: str) -> Recipe:
    loaded = library.load()
    model = ctypes.create_string_buffer(loaded.model_bytes())
    # Only the sizes are read.
    length = loaded.find_weights(ctypes.addressof(sizes), ctypes.addressof(model))
    layout = hashlib.sha256(bytes(sizes)).hexdigest()[:_NAME_DIGITS]
    name = f"{KEPT_PREFIX}{CODING_VERSION}-{layout}-{sha256[:_NAME_DIGITS]}"
    identity = hashlib.sha256(f"{CODING_VERSION} {bytes(sizes).hex()} {sha256}".encode()).digest()
    return Recipe(name, identity, length, partial(_code, path, sizes, length))


def _code(path: Path, sizes: Sizes, length: int, write: Write) -> None:
    """Code the weights of a file.

    Raises:
        UsageError: they cannot be read, some are missing, or they are of other sizes.
        OSError: of `write`.
    """
    from safetensors import SafetensorError

    written = 0

    def write_on(data: Array | bytes) -> None:
        nonlocal written
        written += len(data)
        if written <= length:
            write(data)

    try:
        write_block(_open(path), sizes, write_on)
    except SafetensorError as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    except KeyError as error:
        raise UsageError(f"{path}: has no tensor {error}") from error
    if written != length:
        raise UsageError(f"{path}: its tensors are not of the sizes that the manifest lists")


def _open(path: Path) -> Tensors:
    try:
        return Tensors(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error


def sizes_obstacle(sizes: Dimensions) -> str | None:
    """Why the compiled code cannot take a network of these sizes, if so."""
    for name in ("model_size", "feed_forward_size"):
        if (size := getattr(sizes, name)) % _MULTIPLE:
            return f"{name} is {size}, which is no multiple of {_MULTIPLE}"
    if sizes.head_size % _HEAD_MULTIPLE:
        return f"head_size is {sizes.head_size}, which is no multiple of {_HEAD_MULTIPLE}"
    if sizes.head_size > MOST_HEAD_SIZE:
        return f"head_size is {sizes.head_size}, more than {MOST_HEAD_SIZE}"
    if (layers := max(sizes.encoder_layers, sizes.decoder_layers)) > MOST_LAYERS:
        return f"it has {layers} layers, more than {MOST_LAYERS}"
    return None
