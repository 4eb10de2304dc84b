"""8-bit products are exact in every library that this CPU can run."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from dragoman_serving.engine.compiled import library
from dragoman_serving.engine.compiled.library import Number, Pointer, Product

STORE = 0
"""Values of `Finish` in `products.h`."""
INPUTS, OUTPUTS = 512, 192
ROWS = range(1, 14)
"""More rows than the largest tile has."""

Integers = npt.NDArray[np.integer[Any]]
Floats = npt.NDArray[np.float32]


class Codes(ctypes.Structure):
    """See `products.h`."""

    _fields_ = (
        ("codes", Pointer),
        ("scales", Pointer),
        ("starts", Pointer),
        ("zero", ctypes.c_int32),
        ("places", Pointer),
    )


@pytest.fixture(params=library.usable_instruction_sets())
def loaded(request: pytest.FixtureRequest) -> ctypes.CDLL:
    return ctypes.CDLL(str(library._path(request.param)))


def quantised(loaded: ctypes.CDLL, name: str, rows: Floats) -> tuple[Codes, list[Any]]:
    """Codes of rows by `quantise` or `quantise_rectified`, and the objects that they refer to."""
    """Some instruction sets use two bytes for a code."""
    memory = np.empty((2, *rows.shape), np.uint8), np.empty((2, len(rows)), np.float32)
    codes = Codes(*(array.ctypes.data for array in (memory[0], *memory[1])))
    function = getattr(loaded, name)
    function.argtypes, function.restype = (Pointer, Number, Number, Pointer), None
    function(rows.ctypes.data, *rows.shape, ctypes.addressof(codes))
    return codes, [*memory]


def product_of(weights: Integers) -> tuple[Product, list[Any]]:
    """The structure of weights [outputs, inputs], without scales and biases, and its arrays."""
    outputs, inputs = weights.shape
    vectors = weights.astype(np.int8).reshape(-1, 16, inputs // 4, 4)
    arranged = np.ascontiguousarray(vectors.transpose(0, 2, 1, 3))
    sums = weights.sum(axis=1, dtype=np.int32)
    kept = [arranged, sums, np.ones(outputs, np.float32), np.zeros(outputs, np.float32)]
    return Product(*(array.ctypes.data for array in kept), inputs, outputs), kept


def multiplied(loaded: ctypes.CDLL, codes: Codes, rows: int, weights: Integers) -> Floats:
    """Products of codes with weights [outputs, inputs]."""
    product, _kept = product_of(weights)
    results = np.empty((rows, len(weights)), np.float32)
    loaded.multiply.argtypes = (Pointer, Pointer, Codes, Number, ctypes.c_int, Pointer)
    loaded.multiply.restype = None
    loaded.multiply(None, ctypes.addressof(product), codes, rows, STORE, results.ctypes.data)
    return results


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", ["quantise", "quantise_rectified"])
def test_products_of_the_largest_codes_do_not_saturate(
    loaded: ctypes.CDLL, name: str, sign: int
) -> None:
    """Every product has the largest value, so that every partial sum does too."""
    values = np.ones((3, INPUTS), np.float32)
    codes, _kept = quantised(loaded, name, values)
    products = multiplied(loaded, codes, 3, np.full((OUTPUTS, INPUTS), 127 * sign))
    assert products == pytest.approx(sign * 127.0 * INPUTS, rel=1e-6)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("name", ["quantise", "quantise_rectified"])
def test_products_are_exact(loaded: ctypes.CDLL, name: str, rows: int) -> None:
    """Codes and weights are at both ends of their ranges, in every combination."""
    generator = np.random.default_rng(rows)
    weights = generator.choice([-127, -126, -1, 0, 1, 127], (OUTPUTS, INPUTS))
    if name == "quantise":
        codes, scale = generator.choice([-127, -126, 0, 1, 127], (rows, INPUTS)), 127
    else:
        codes, scale = generator.choice([0, 1, 127, 128, 255], (rows, INPUTS)), 255
    codes[:, 0] = scale
    structure, _kept = quantised(loaded, name, codes.astype(np.float32) / np.float32(scale))
    products = multiplied(loaded, structure, rows, weights)
    right = codes.astype(np.int64) @ weights.T.astype(np.int64)
    assert np.array_equal(products, right.astype(np.float32) * np.float32(1 / np.float32(scale)))


@pytest.mark.parametrize("rows", ROWS)
def test_results_are_stored_in_their_rows(loaded: ctypes.CDLL, rows: int) -> None:
    generator = np.random.default_rng(rows)
    values = generator.normal(size=(rows, INPUTS)).astype(np.float32)
    weights = generator.integers(-127, 128, (OUTPUTS, INPUTS))
    words, is_free = listed(rows), np.arange(rows) % 2 == 1
    codes, _kept = quantised(loaded, "quantise", values)
    products = multiplied(loaded, codes, rows, weights)
    scores = multiplied_listed(loaded, codes, rows, weights, words, is_free)
    places = np.arange(rows)[::-1].copy()
    codes.places = places.ctypes.data
    assert np.array_equal(multiplied(loaded, codes, rows, weights), products[places])
    reversed_scores = multiplied_listed(loaded, codes, rows, weights, words, is_free)[places]
    for row, other, size in zip(reversed_scores, scores, used_sizes(words, is_free), strict=True):
        assert np.array_equal(row[:size], other[:size])


def used_sizes(words: npt.NDArray[np.uint64], is_free: npt.NDArray[np.bool_]) -> Iterator[int]:
    """How many values each row of listed outputs has: whole panels, and the largest of each."""
    for word, free in zip(words[:, 0], is_free, strict=True):
        yield 65 * (OUTPUTS // 64 if free else -(-int(word).bit_count() // 4))


def listed(rows: int) -> npt.NDArray[np.uint64]:
    """A word [rows, 1] for each row, with a bit for each vector of outputs."""
    generator = np.random.default_rng(rows)
    words = generator.integers(0, 1 << OUTPUTS // 16, (rows, 1), np.uint64)
    words[rows // 2] = 0
    return words


@pytest.mark.parametrize("rows", [*ROWS, 64, 65, 150])
def test_listed_outputs_equal_the_same_of_all_outputs_in_every_library(rows: int) -> None:
    """They are bit-identical, in the layout that ranking reads; every fifth row has no list."""
    generator = np.random.default_rng(rows)
    values = generator.normal(size=(rows, INPUTS)).astype(np.float32)
    weights = generator.integers(-127, 128, (OUTPUTS, INPUTS))
    words = listed(rows)
    is_free = np.arange(rows) % 5 == 4
    bits = words >> np.arange(OUTPUTS // 16, dtype=np.uint64) & np.uint64(1)
    keep = np.repeat(bits == 1, 16, axis=1) | is_free[:, None]
    encoded = []
    for name in library.usable_instruction_sets():
        loaded = ctypes.CDLL(str(library._path(name)))
        codes, _kept = quantised(loaded, "quantise", values)
        all_scores = multiplied(loaded, codes, rows, weights)
        scores = multiplied_listed(loaded, codes, rows, weights, words, is_free)
        for row, of_row, is_listed in zip(scores, all_scores, keep, strict=True):
            size = is_listed.sum()
            padded = -(-size // 64) * 64
            right = np.full(padded, -np.inf, np.float32)
            right[:size] = of_row[is_listed]
            assert np.array_equal(row[:padded], right)
            largest = right.reshape(-1, 64).max(axis=1)
            assert np.array_equal(row[padded : padded + len(largest)], largest)
        encoded.append(all_scores.tobytes())
    assert len(set(encoded)) == 1


def multiplied_listed(
    loaded: ctypes.CDLL,
    codes: Codes,
    rows: int,
    weights: Integers,
    words: npt.NDArray[np.uint64],
    is_free: npt.NDArray[np.bool_],
) -> Floats:
    """Like `multiplied`, for the outputs whose bits are set in `words`, or for all; with maxima."""
    product, _kept = product_of(weights)
    results = np.empty((rows, OUTPUTS + OUTPUTS // 64), np.float32)
    addresses = words.ctypes.data + words.itemsize * np.arange(rows)
    pointers = np.where(is_free, 0, addresses).astype(np.uintp)
    loaded.multiply_listed.argtypes = (Pointer, Codes, Number, Pointer, Pointer)
    loaded.multiply_listed.restype = None
    loaded.multiply_listed(
        ctypes.addressof(product), codes, rows, pointers.ctypes.data, results.ctypes.data
    )
    return results
