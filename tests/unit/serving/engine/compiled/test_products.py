"""8-bit products are exact in every library that this CPU can run."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from dragoman_serving.engine.compiled import library
from dragoman_serving.engine.compiled.library import Number, Pointer, Product

STORE = 0
"""Of `Finish` in `kernels.h`."""
INPUTS, OUTPUTS = 512, 192
ROWS = range(1, 14)
"""More than the largest tile has."""

Integers = npt.NDArray[np.integer[Any]]
Floats = npt.NDArray[np.float32]


class Codes(ctypes.Structure):
    """See `kernels.h`."""

    _fields_ = (
        ("codes", Pointer),
        ("scales", Pointer),
        ("starts", Pointer),
        ("zero", ctypes.c_int32),
    )


@pytest.fixture(params=library.usable_instruction_sets())
def loaded(request: pytest.FixtureRequest) -> ctypes.CDLL:
    return ctypes.CDLL(str(library._path(request.param)))


def quantised(loaded: ctypes.CDLL, name: str, rows: Floats) -> tuple[Codes, list[Any]]:
    """Codes of rows by `quantise` or `quantise_rectified`, and what must live as long as they."""
    """Some instruction sets take two bytes a code."""
    memory = np.empty((2, *rows.shape), np.uint8), np.empty((2, len(rows)), np.float32)
    codes = Codes(*(one.ctypes.data for one in (memory[0], *memory[1])))
    function = getattr(loaded, name)
    function.argtypes, function.restype = (Pointer, Number, Number, Pointer), None
    function(rows.ctypes.data, *rows.shape, ctypes.addressof(codes))
    return codes, [*memory]


def multiplied(loaded: ctypes.CDLL, codes: Codes, rows: int, weights: Integers) -> Floats:
    """Products of codes with weights [outputs, inputs], without scales and biases."""
    outputs, inputs = weights.shape
    vectors = weights.astype(np.int8).reshape(-1, 16, inputs // 4, 4)
    arranged = np.ascontiguousarray(vectors.transpose(0, 2, 1, 3))
    sums = weights.sum(axis=1, dtype=np.int32)
    scales, biases = np.ones(outputs, np.float32), np.zeros(outputs, np.float32)
    addresses = (one.ctypes.data for one in (arranged, sums, scales, biases))
    product, results = Product(*addresses, inputs, outputs), np.empty((rows, outputs), np.float32)
    loaded.multiply.argtypes = (Pointer, Codes, Number, ctypes.c_int, Pointer)
    loaded.multiply.restype = None
    loaded.multiply(ctypes.addressof(product), codes, rows, STORE, results.ctypes.data)
    return results


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", ["quantise", "quantise_rectified"])
def test_products_of_the_largest_codes_do_not_saturate(
    loaded: ctypes.CDLL, name: str, sign: int
) -> None:
    """Every product is the largest there is, so that every partial sum is too."""
    values = np.ones((3, INPUTS), np.float32)
    codes, _kept = quantised(loaded, name, values)
    found = multiplied(loaded, codes, 3, np.full((OUTPUTS, INPUTS), 127 * sign))
    assert found == pytest.approx(sign * 127.0 * INPUTS, rel=1e-6)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("name", ["quantise", "quantise_rectified"])
def test_products_are_exact(loaded: ctypes.CDLL, name: str, rows: int) -> None:
    """Codes and weights lie at both ends of their ranges, in every combination."""
    generator = np.random.default_rng(rows)
    weights = generator.choice([-127, -126, -1, 0, 1, 127], (OUTPUTS, INPUTS))
    if name == "quantise":
        codes, scale = generator.choice([-127, -126, 0, 1, 127], (rows, INPUTS)), 127
    else:
        codes, scale = generator.choice([0, 1, 127, 128, 255], (rows, INPUTS)), 255
    codes[:, 0] = scale
    structure, _kept = quantised(loaded, name, codes.astype(np.float32) / np.float32(scale))
    found = multiplied(loaded, structure, rows, weights)
    right = codes.astype(np.int64) @ weights.T.astype(np.int64)
    assert np.array_equal(found, right.astype(np.float32) * np.float32(1 / np.float32(scale)))
