"""What the model thinks of a translation, as the server says it and as objects."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Weights = npt.NDArray[np.float32]

_DIGITS = 6
"""Of a weight, as the server has it."""
_LAYERS_AND_HEADS = 2
"""Dimensions of weights before those of tokens."""
_LINKS = re.compile(r"(\d+-\d+( \d+-\d+)*)?", re.ASCII)


@dataclasses.dataclass(frozen=True)
class TokenScores:
    """Log-probabilities of a translation's tokens.

    Attributes:
        tokens: entries of the model's vocabulary, "</s>" after each sentence that ended by itself.
        log_probs: theirs.
    """

    tokens: tuple[str, ...]
    log_probs: tuple[float, ...]

    @classmethod
    def parse(cls, answer: str) -> TokenScores:
        """Read what the server answers.

        Raises:
            ValueError: it is something else.
        """
        found = _object(answer, "token scores")
        tokens, log_probs = _strings(found, "tokens"), _numbers(found.get("log_probs"))
        if len(tokens) != len(log_probs):
            raise ValueError(f"{len(tokens)} tokens with {len(log_probs)} log-probabilities")
        return cls(tokens, log_probs)


@dataclasses.dataclass(frozen=True)
class WordAlignment:
    """Which words of a text a translation's words come from.

    Attributes:
        links: pairs of a word of the text and one of the translation, counted from 0, as
            `str.split` cuts them; `str()` writes them as Moses does, such as "0-0 1-2".
    """

    links: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        """In Moses' form."""
        return " ".join(f"{source}-{target}" for source, target in self.links)

    @classmethod
    def parse(cls, answer: str) -> WordAlignment:
        """Read what the server answers.

        Raises:
            ValueError: it is something else.
        """
        if _LINKS.fullmatch(answer) is None:
            raise ValueError(f"alignments {answer[:50]!r} are no pairs of words")
        pairs = (link.split("-") for link in answer.split())
        return cls(tuple((int(source), int(target)) for source, target in pairs))


@dataclasses.dataclass(frozen=True)
class SoftAlignment:
    """How much each piece of a translation looked at each piece of its text.

    Attributes:
        source: pieces of the text, entries of the model's vocabulary.
        target: those of the translation.
        weights: a row for each of the translation's pieces, with a weight for each of the text's;
            what a row lacks to one went to the text's special symbols.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: tuple[tuple[float, ...], ...]

    @classmethod
    def parse(cls, answer: str) -> SoftAlignment:
        """Read what the server answers.

        Raises:
            ValueError: it is something else.
        """
        found = _object(answer, "alignments")
        source, target = _strings(found, "source"), _strings(found, "target")
        rows = found.get("weights")
        if not isinstance(rows, list):
            raise ValueError("alignments without weights")
        weights = tuple(map(_numbers, rows))
        if len(weights) != len(target) or any(len(row) != len(source) for row in weights):
            raise ValueError(f"weights that are not {len(target)} times {len(source)}")
        return cls(source, target, weights)


@dataclasses.dataclass(frozen=True)
class Attention:
    """What every head of every layer looked at, from 0 to 1.

    Attributes:
        source: the S tokens of the text, with the language's tag and the end symbol.
        read: the T tokens that the decoder read, one a step, the start symbol first.
        said: the T tokens that it said in these steps.
        encoder: weights [L, H, S, S] of the encoder's self-attention, float32: rows look, columns
            are looked at.
        decoder: those of the decoder's, [L, H, T, T]: steps look at what was read.
        cross: those of the decoder's attention to the encoder, [L, H, T, S].
    """

    source: tuple[str, ...]
    read: tuple[str, ...]
    said: tuple[str, ...]
    encoder: Weights = dataclasses.field(compare=False, repr=False)
    decoder: Weights = dataclasses.field(compare=False, repr=False)
    cross: Weights = dataclasses.field(compare=False, repr=False)

    def __eq__(self, other: object) -> bool:
        """Whether all tokens and all weights are the same."""
        if not isinstance(other, Attention):
            return NotImplemented
        fields = dataclasses.fields(self)
        return all(np.array_equal(getattr(self, f.name), getattr(other, f.name)) for f in fields)

    @classmethod
    def parse(cls, answer: str) -> Attention:
        """Read what the server answers.

        Raises:
            ValueError: it is something else.
        """
        found = _object(answer, "attention")
        source, read, said = (_strings(found, name) for name in ("source", "read", "said"))
        if len(read) != len(said):
            raise ValueError(f"{len(read)} tokens read and {len(said)} said")
        lengths = {"encoder": (source, source), "decoder": (said, read), "cross": (said, source)}
        weights = [_weights(found, name, *map(len, sides)) for name, sides in lengths.items()]
        return cls(source, read, said, *weights)

    def as_json(self) -> dict[str, Any]:
        """As it stands in a line of JSON: texts, and weights as nested lists."""
        weights = {name: getattr(self, name) for name in ("encoder", "decoder", "cross")}
        texts = {name: getattr(self, name) for name in ("source", "read", "said")}
        return texts | {
            name: one.astype(np.float64).round(_DIGITS).tolist() for name, one in weights.items()
        }


Alignments = WordAlignment | SoftAlignment


def parse_alignments(answer: str, form: str) -> Alignments:
    """Read alignments in the form that was asked for.

    Raises:
        ValueError: they are something else.
    """
    return SoftAlignment.parse(answer) if form == "soft" else WordAlignment.parse(answer)


def alignments_as_json(alignments: Alignments) -> Any:
    """As it stands in a line of JSON: Moses' pairs, or an object."""
    if isinstance(alignments, WordAlignment):
        return str(alignments)
    return dataclasses.asdict(alignments)


def _object(answer: str, what: str) -> dict[str, Any]:
    try:
        found = json.loads(answer)
    except RecursionError as error:
        raise ValueError(f"{what} are nested too deep") from error
    if not isinstance(found, dict):
        raise ValueError(f"{what} are not an object of JSON")
    return found


def _strings(found: dict[str, Any], name: str) -> tuple[str, ...]:
    values = found.get(name)
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError(f"{name} are not strings")
    return tuple(values)


def _weights(found: dict[str, Any], name: str, queries: int, keys: int) -> Weights:
    """Weights [L, H, queries, keys]."""
    try:
        weights = np.array(found.get(name), np.float32)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: no weights of layers and heads") from error
    if queries == keys == 0 and weights.ndim > _LAYERS_AND_HEADS:  # of an empty text
        weights = weights.reshape(*weights.shape[:_LAYERS_AND_HEADS], 0, 0)
    if weights.shape[2:] != (queries, keys) or not all(weights.shape[:_LAYERS_AND_HEADS]):
        raise ValueError(f"{name}: weights {list(weights.shape)} for {queries} by {keys} tokens")
    if not np.isfinite(weights).all():
        raise ValueError(f"{name}: some weights are not finite")
    return weights


def _numbers(values: Any) -> tuple[float, ...]:
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise ValueError("numbers are missing")
    if not all(type(value) in (int, float) for value in values):
        raise ValueError("some numbers are none")
    try:
        numbers = tuple(map(float, values))
    except OverflowError as error:
        raise ValueError("some numbers are too large") from error
    if not all(map(math.isfinite, numbers)):
        raise ValueError("some numbers are not finite")
    return numbers
