"""Scores, alignments and attention of a translation, and their JSON.

NumPy is imported only for attention, so that the rest of the package does not need it.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dragoman_options.output import Codec, JsonValue

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Weights = npt.NDArray[np.float32]

_DIGITS = 6
"""Decimal places of a weight, as in the server's output."""
_LAYERS_AND_HEADS = 2
"""Number of dimensions of the weights before the token dimensions."""
_LINKS = re.compile(r"(\d+-\d+( \d+-\d+)*)?", re.ASCII)


@dataclasses.dataclass(frozen=True)
class TokenScores(JsonValue):
    """Log-probabilities of a translation's tokens.

    Attributes:
        tokens: entries of the model's vocabulary, with "</s>" after each sentence that the token
            limit did not cut.
        log_probs: their log-probabilities.
    """

    tokens: tuple[str, ...]
    log_probs: tuple[float, ...]

    @classmethod
    def parse(cls, answer: str) -> TokenScores:
        """Parse the server's answer.

        Raises:
            ValueError: the answer does not have this form.
        """
        members = _object(answer, "token scores")
        tokens, log_probs = _strings(members, "tokens"), _numbers(members.get("log_probs"))
        if len(tokens) != len(log_probs):
            raise ValueError(f"{len(tokens)} tokens with {len(log_probs)} log-probabilities")
        return cls(tokens, log_probs)


@dataclasses.dataclass(frozen=True)
class WordAlignment:
    """Links between the words of a text and of its translation.

    Attributes:
        links: pairs of a source word and a target word, as indices from 0 into the result of
            `str.split`; `str()` writes them in Moses' format, such as "0-0 1-2".
    """

    links: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        """The links in Moses' format."""
        return " ".join(f"{source}-{target}" for source, target in self.links)

    @classmethod
    def parse(cls, answer: str) -> WordAlignment:
        """Parse the server's answer.

        Raises:
            ValueError: the answer does not have this form.
        """
        if _LINKS.fullmatch(answer) is None:
            raise ValueError(f"alignments {answer[:50]!r} are no pairs of words")
        pairs = (link.split("-") for link in answer.split())
        return cls(tuple((int(source), int(target)) for source, target in pairs))

    def as_json(self) -> str:
        """Returns a value for JSON."""
        return str(self)


@dataclasses.dataclass(frozen=True)
class SoftAlignment(JsonValue):
    """Attention weights between the subword tokens of a translation and of its text.

    Attributes:
        source: tokens of the text, entries of the model's vocabulary.
        target: tokens of the translation.
        weights: a row for each target token, with a weight for each source token. A row may sum
            to less than one; the rest belongs to the special tokens of the source.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: tuple[tuple[float, ...], ...]

    @classmethod
    def parse(cls, answer: str) -> SoftAlignment:
        """Parse the server's answer.

        Raises:
            ValueError: the answer does not have this form.
        """
        members = _object(answer, "alignments")
        source, target = _strings(members, "source"), _strings(members, "target")
        rows = members.get("weights")
        if not isinstance(rows, list):
            raise ValueError("alignments without weights")
        weights = tuple(map(_numbers, rows))
        if len(weights) != len(target) or any(len(row) != len(source) for row in weights):
            raise ValueError(f"weights that are not {len(target)} times {len(source)}")
        return cls(source, target, weights)


@dataclasses.dataclass(frozen=True)
class Attention:
    """Attention weights of every head of every layer, from 0 to 1.

    Attributes:
        source: the S tokens of the text, with the language tag and the end-of-sequence token.
        read: the T input tokens of the decoder, one for each step, beginning with the start token.
        said: the T tokens that the decoder generated in these steps.
        encoder: weights [L, H, S, S] of the encoder's self-attention, float32: queries by keys.
        decoder: weights [L, H, T, T] of the decoder's self-attention; L is 0 if the model's
            decoder is recurrent and has none.
        cross: weights [L, H, T, S] of the cross-attention.
        alignment_heads: layer and head of the cross-attention that aligns words best; empty if the
            model names none.
        aligns_when_read: whether these heads align the token that a step reads, not the one that
            it generates.
    """

    source: tuple[str, ...]
    read: tuple[str, ...]
    said: tuple[str, ...]
    encoder: Weights = dataclasses.field(compare=False, repr=False)
    decoder: Weights = dataclasses.field(compare=False, repr=False)
    cross: Weights = dataclasses.field(compare=False, repr=False)
    alignment_heads: tuple[tuple[int, int], ...] = dataclasses.field(default=(), kw_only=True)
    aligns_when_read: bool = dataclasses.field(default=False, kw_only=True)

    def __eq__(self, other: object) -> bool:
        """Whether all tokens and all weights are equal."""
        if not isinstance(other, Attention):
            return NotImplemented
        import numpy as np

        fields = dataclasses.fields(self)
        return all(np.array_equal(getattr(self, f.name), getattr(other, f.name)) for f in fields)

    @classmethod
    def parse(cls, answer: str) -> Attention:
        """Parse the server's answer.

        Raises:
            ValueError: the answer does not have this form.
        """
        members = _object(answer, "attention")
        source, read, said = (_strings(members, name) for name in ("source", "read", "said"))
        if len(read) != len(said):
            raise ValueError(f"{len(read)} tokens read and {len(said)} said")
        lengths = {"encoder": (source, source), "decoder": (said, read), "cross": (said, source)}
        weights = [_weights(members, name, *map(len, sides)) for name, sides in lengths.items()]
        heads = _heads(members, *weights[-1].shape[:2])
        when_read = members.get("aligns_when_read", False)  # absent in version 0.1
        if not isinstance(when_read, bool):
            raise ValueError("aligns_when_read: not true or false")
        aligning: Any = {"alignment_heads": heads, "aligns_when_read": when_read}
        return cls(source, read, said, *weights, **aligning)

    def as_json(self) -> dict[str, Any]:
        """Returns a value for JSON: lists of tokens, weights as nested lists, and heads."""
        weights = {name: getattr(self, name) for name in ("encoder", "decoder", "cross")}
        texts = {name: getattr(self, name) for name in ("source", "read", "said")}
        numbers = {
            name: array.astype("float64").round(_DIGITS).tolist() for name, array in weights.items()
        }
        heads = [list(head) for head in self.alignment_heads]
        alignment = {"alignment_heads": heads, "aligns_when_read": self.aligns_when_read}
        return texts | numbers | alignment


Alignments = WordAlignment | SoftAlignment


def _parse_alignments(answer: str, options: Mapping[str, Any]) -> Alignments:
    """Parse alignments in the requested form."""
    form = SoftAlignment if options.get("return_alignments") == "soft" else WordAlignment
    return form.parse(answer)


ALIGNMENTS = Codec(
    datatype="BYTES",
    json_type=str | SoftAlignment,
    parse=_parse_alignments,
    as_json=lambda alignments: alignments.as_json(),
    form="JSON or text",
)


def _object(answer: str, what: str) -> dict[str, Any]:
    try:
        document = json.loads(answer)
    except RecursionError as error:
        raise ValueError(f"{what} are nested too deep") from error
    if not isinstance(document, dict):
        raise ValueError(f"{what} are not a JSON object")
    return document


def _strings(members: dict[str, Any], name: str) -> tuple[str, ...]:
    values = members.get(name)
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError(f"{name} are not strings")
    return tuple(values)


def _heads(members: dict[str, Any], layers: int, heads: int) -> tuple[tuple[int, int], ...]:
    """Pairs of layer and head; none from servers of version 0.1."""
    pairs = members.get("alignment_heads", [])
    possible = [[layer, head] for layer in range(layers) for head in range(heads)]
    if not isinstance(pairs, list) or any(pair not in possible for pair in pairs):
        raise ValueError(f"alignment_heads: not pairs of one of {layers} layers and {heads} heads")
    return tuple((layer, head) for layer, head in pairs)


def _weights(members: dict[str, Any], name: str, queries: int, keys: int) -> Weights:
    """Weights [L, H, queries, keys]."""
    import numpy as np

    try:
        weights = np.array(members.get(name), np.float32)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: not weights by layer and head") from error
    if name == "decoder" and weights.shape == (0,):  # a recurrent decoder
        return np.zeros((0, 0, queries, keys), np.float32)
    if queries == keys == 0 and weights.ndim > _LAYERS_AND_HEADS:  # an empty text
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
        raise ValueError("some values are not numbers")
    try:
        numbers = tuple(map(float, values))
    except OverflowError as error:
        raise ValueError("some numbers are too large") from error
    if not all(map(math.isfinite, numbers)):
        raise ValueError("some numbers are not finite")
    return numbers
