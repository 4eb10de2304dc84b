"""What is asked and what is answered, as tensors and as objects."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from dragoman_options.markup import PlacedCodes
from dragoman_options.table import OUTPUTS, TRANSLATE, requested_outputs

from dragoman_client.assessment import Alignments, Attention, TokenScores, parse_alignments
from dragoman_client.errors import ServerError
from dragoman_client.tensors import Array, option_tensors, text_tensor

ALWAYS: Final = tuple(one.name for one in OUTPUTS.values() if TRANSLATE in one.always)
"""Names of the tensors that every translation comes with, each of shape [1, N]."""

Part = Mapping[str, Array | None]
"""Outputs by name, each of shape [1, 1]: a part of an answer that comes as a stream."""

ENDED_EARLY: Final = "the answer ended before its last part"
_NO_OPTIONS: Mapping[str, Any] = {}
_LAST = (b"stop", b"length")
"""Reasons to end, in the last part of a stream."""


def microseconds(seconds: float) -> int:
    """A deadline in the unit that Triton takes; requests carry it, so the server stops as well."""
    return max(1, int(seconds * 1e6))


def is_last(part: Part) -> bool:
    """Whether a part of a stream is its last one."""
    reasons = part.get("finish_reason")
    return reasons is not None and bool(reasons.size) and reasons[0, 0] in _LAST


def has_text(part: Part) -> bool:
    """Whether a part of a stream has text."""
    texts = part.get("text_output")
    return texts is None or any(texts.reshape(-1))


@dataclasses.dataclass(frozen=True)
class Translation:
    """One translated text.

    Attributes:
        text: the translation.
        output_tokens: how many tokens it has.
        finish_reason: "stop", or "length" where the limit of tokens cut it.
        score: the sum of the tokens' log-probabilities over the length penalty; like what follows
            `elapsed_s`, None unless an option asked for it.
        alternatives: further translations of the text, best first, where `num_return_sequences`
            asked for them.
        elapsed_s: from sending its request to reading its answer, or as far as it is read, retries
            included; does not count when translations are compared.
        token_scores: the tokens and their log-probabilities.
        alignments: links between words, or the weights behind them.
        confidence: the log-probability of a token on average, the end symbol included.
        attention: the weights of every head.
        bundle: identity of the bundle that translated; of both, with a comma, through a pivot
            language.
        detected_language: that of the text, with a `source_language` of "auto"; None as well for a
            text without any.
        detected_probability: of that language, from 0 to 1.
        warnings: of "repetition", "short", "long", "untranslated", what its sentences' translations
            are; docs/options.md has the rules.
        codes: where the codes of the text's markup are.
        via: the pivot language, such as "en"; None: the translation is a direct one.
        delta: in a stream, what this part adds to the text of the one before.
    """

    text: str
    output_tokens: int
    finish_reason: str
    score: float | None = None
    alternatives: tuple[Translation, ...] = ()
    elapsed_s: float = dataclasses.field(default=0.0, compare=False)
    token_scores: TokenScores | None = None
    alignments: Alignments | None = None
    confidence: float | None = None
    attention: Attention | None = None
    bundle: str | None = None
    detected_language: str | None = None
    detected_probability: float | None = None
    warnings: tuple[str, ...] = ()
    codes: PlacedCodes | None = None
    via: str | None = None
    delta: str | None = dataclasses.field(default=None, compare=False)


def build_inputs(
    texts: Sequence[str], options: Mapping[str, Any], first_index: int = 0
) -> dict[str, Array]:
    """Write texts and options as the model's input tensors.

    Args:
        texts: N texts.
        options: by name, as `dragoman_options.table.check` returns them.
        first_index: place of the first text among all of the caller's, for messages.

    Returns:
        Tensors by name: `text_input` object [1, N] of UTF-8 bytes, options each of shape
        [1, values].

    Raises:
        TypeError: a text that is no `str`.
        ValueError: a text that UTF-8 cannot write.
    """
    return {"text_input": text_tensor(texts, first_index=first_index)} | option_tensors(options)


def read_outputs(
    outputs: Mapping[str, Array | None],
    count: int,
    elapsed_s: float,
    options: Mapping[str, Any] = _NO_OPTIONS,
) -> list[Translation]:
    """Read the model's answer.

    Args:
        outputs: tensors by name, each of shape [1, N x K], the K translations of a text next to
            each other: `text_output` and `finish_reason` object of UTF-8 bytes, `output_tokens`
            int32, `scores` float32; None: the server did not send it.
        count: N, how many texts were sent.
        elapsed_s: since they were.
        options: that they were sent with, by name, K among them.

    Raises:
        ServerError: a tensor is missing, of another length, not UTF-8, or not what it should hold.
    """
    each = options.get("num_return_sequences", 1)
    columns = _columns(outputs, ALWAYS, count * each)
    warnings, pivots = (
        [b""] * (count * each) if given is None else given.reshape(-1)
        for given in (outputs.get("warnings"), outputs.get("via"))
    )
    assessments = read_assessments(outputs, count * each, options)
    with _faults():
        found = [
            Translation(
                text.decode("utf-8"),
                int(tokens),
                reason.decode("utf-8"),
                elapsed_s=elapsed_s,
                warnings=tuple(filter(None, names.decode("utf-8").split(","))),
                via=pivot.decode("utf-8") or None,
                **assessment,
            )
            for text, tokens, reason, names, pivot, assessment in zip(
                *columns, warnings, pivots, assessments, strict=True
            )
        ]
    if each == 1:
        return found
    return [
        dataclasses.replace(found[i], alternatives=tuple(found[i + 1 : i + each]))
        for i in range(0, len(found), each)
    ]


def read_assessments(
    outputs: Mapping[str, Array | None],
    count: int,
    options: Mapping[str, Any],
    model: str = TRANSLATE,
) -> list[dict[str, Any]]:
    """Read the outputs that were asked for.

    Args:
        outputs: see `read_outputs`.
        count: how many translations there are.
        options: by name, that say what was asked for.
        model: that answers.

    Returns:
        Fields of `Translation` by name.

    Raises:
        ServerError: a tensor is missing, of another length, or not what it should hold.
    """
    form = options.get("return_alignments", "")
    readers: dict[str, tuple[str, Callable[[Any], Any]]] = {
        "scores": ("score", float),
        "token_scores": ("token_scores", lambda value: TokenScores.parse(value.decode("utf-8"))),
        "alignments": ("alignments", lambda value: parse_alignments(value.decode("utf-8"), form)),
        "confidences": ("confidence", float),
        "attention": ("attention", lambda value: Attention.parse(value.decode("utf-8"))),
        "detected_language": ("detected_language", lambda value: value.decode("utf-8") or None),
        "detected_probability": ("detected_probability", float),
        "bundle": ("bundle", lambda value: value.decode("utf-8")),
        "codes": ("codes", lambda value: PlacedCodes.parse(value.decode("utf-8"))),
    }
    names = [name for name in requested_outputs(options) if model in OUTPUTS[name].models]
    fields: list[dict[str, Any]] = [{} for _ in range(count)]
    with _faults():
        for name, column in zip(names, _columns(outputs, names, count), strict=True):
            field, read = readers[name]
            for of_one, value in zip(fields, column, strict=True):
                of_one[field] = read(value)
    return fields


@contextlib.contextmanager
def _faults() -> Iterator[None]:
    """What values that are not what they should be mean."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise ServerError(f"the answer is not UTF-8: {error}") from error
    except (AttributeError, TypeError, ValueError) as error:
        raise ServerError(f"the answer has tensors of other types: {error}") from error


def _columns(outputs: Mapping[str, Array | None], names: Sequence[str], count: int) -> list[Array]:
    """Tensors [N] of these names.

    Raises:
        ServerError: one is missing, or of another length.
    """
    columns = []
    for name in names:
        values = outputs.get(name)
        if values is None:
            raise ServerError(f"the answer lacks {name}: is this a Dragoman server?")
        if values.shape != (1, count):
            raise ServerError(f"{name} has shape {list(values.shape)}: expected [1, {count}]")
        columns.append(values[0])
    return columns
