"""The answers of the fakes, as values by names of inputs and outputs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dragoman_options.assessment import TokenScores, WordAlignment
from dragoman_options.client_frames import TEXTS
from dragoman_options.markup import Markup, PlacedCodes
from dragoman_options.output import Datatype
from dragoman_options.refusal import Refusal
from dragoman_options.table import (
    INFO,
    OPTIONS,
    OUTPUTS,
    SCORE,
    Translation,
    check,
    describe,
    requested_outputs,
)

from dragoman_client.core.errors import DeadlineExceeded, InvalidRequest
from dragoman_client.version import __version__

Translate = Callable[[str], str | Translation]

Outputs = dict[str, list[Any]]
"""Values by output: strings, integers or floats."""

DATATYPES: dict[str, Datatype] = {
    INFO: "BYTES",
    **{output.name: output.codec.datatype for output in OUTPUTS.values()},
}
"""Triton's data types by output."""

_LIMITS = {
    "max_target_tokens": 320,
    "max_beam_width": 8,
    "most_text_tokens": 254,
    "vocabulary": 11_000,
    "request_sentences": 20_000,
    "sentence_tokens": 254,
}
_BUNDLE = "0" * 64
INFORMATION: dict[str, Any] = {
    "version": __version__,
    "languages": ["en", "de"],
    "directions": [["en", "de"], ["de", "en"]],
    "pairs": [
        {"source": "en", "target": "de", "via": None, "models": []},
        {"source": "de", "target": "en", "via": None, "models": []},
    ],
    "bundles": [{"identity": _BUNDLE, "precision": "int8"}],
    "models": ["translate", "translate_stream", "score", "info"],
    "options": describe(_LIMITS),
    "limits": _LIMITS,
    "metrics_port": None,
}
"""A fake's answer of the model `info`."""

_LACKING = (("return_attention", True), ("return_alignments", "soft"))


_EMPTY = Translation("", 0, "stop", score=0.0, confidence=0.0)
"""The translation of a text with nothing to translate."""


def translated(text: str) -> str:
    """Returns the text in upper case and angle brackets: `<GOOD MORNING.>`."""
    return f"<{text.upper()}>"


@dataclass(frozen=True)
class Request:
    """A request that a fake received.

    Attributes:
        model: "translate", "translate_stream", "score" or "info".
        inputs: values by name; `text_input` has the texts, an option has one value.
        timeout_s: the timeout that the client sent, or None.
        headers: HTTP headers or gRPC metadata, with names in lower case; empty for a transport.
        request_id: id of the request; empty: none.
    """

    model: str
    inputs: Mapping[str, list[Any]]
    timeout_s: float | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    request_id: str = ""


class Answers:
    """Answers requests, and records them.

    Attributes:
        requests: the requests, oldest first.
    """

    def __init__(self, translate: Translate) -> None:
        """Store the function that translates."""
        self._translate = translate
        self.requests: list[Request] = []

    def whole(self, request: Request) -> Outputs:
        """Returns the outputs of a request that is not streamed.

        Raises:
            TranslationError: the request is refused.
        """
        self.requests.append(request)
        if request.model == INFO:
            return {INFO: [json.dumps(INFORMATION)]}
        texts, inputs = request.inputs["text_input"], request.inputs
        options = _options(request)
        for name, value in _LACKING:
            if options.get(name) == value:
                raise InvalidRequest(
                    f"the fake does not support {name}={value!r}", "unsupported", name
                )
        begin_s = time.monotonic()
        if request.model == SCORE:
            translations = _given(texts, inputs["target_input"])
        else:
            each = options.get("num_return_sequences", 1)
            translations = [
                translation for text in texts for translation in [self._one(text)] * each
            ]
        if request.timeout_s is not None and time.monotonic() - begin_s > request.timeout_s:
            raise DeadlineExceeded("the deadline passed while it was being translated")
        return _outputs(request.model, options, translations)

    def parts(self, request: Request) -> Iterator[Outputs]:
        """Yields the outputs of a streamed request, character by character.

        Raises:
            TranslationError: the request is refused.
        """
        try:
            whole = self.whole(request)
        except DeadlineExceeded:
            yield _part("", 0)  # as the server sends it before it translates
            raise
        (text,) = whole["text_output"]
        for end in range(max(len(text), 1)):
            yield _part(text, end)
        yield whole | {"delta": [text[-1:]]}

    def _one(self, text: str) -> Translation:
        if not text.strip():
            return _EMPTY
        answer = self._translate(text)
        return Translation(answer, len(text), "stop") if isinstance(answer, str) else answer


def _given(texts: list[str], targets: list[str]) -> list[Translation]:
    """Wraps given translations."""
    for index, sides in enumerate(zip(texts, targets, strict=True)):
        text, target = (bool(side.strip()) for side in sides)
        if text != target:
            what, other = ("target", "text") if text else ("text", "target")
            raise InvalidRequest(
                f"{what} {index} is empty, but its {other} is not",
                option="target_input" if what == "target" else None,
                text_index=index,
            )
    return [Translation(target, 0, "") if target.strip() else _EMPTY for target in targets]


def _part(text: str, end: int) -> Outputs:
    """Returns the outputs for a partial translation."""
    return {
        "text_output": [text[:end]],
        "output_tokens": [end],
        "finish_reason": [""],
        "delta": [text[max(end - 1, 0) : end]],
    }


def _options(request: Request) -> dict[str, Any]:
    """Returns the options of a request."""
    given = {name: values for name, values in request.inputs.items() if name not in TEXTS}
    single = (name for name in given if not (name in OPTIONS and OPTIONS[name].is_list))
    try:
        return check(given | {name: given[name][0] for name in single}, request.model)
    except (TypeError, ValueError) as error:
        raise InvalidRequest(*Refusal.of(error)) from error


def _placed(markup: Markup, text: str) -> PlacedCodes:
    """Returns codes at their positions in the source text, clipped to the translation."""
    last = len(text)
    return PlacedCodes(tuple((min(begin, last), min(end, last)) for begin, end, _ in markup.codes))


def _outputs(model: str, options: Mapping[str, Any], translations: list[Translation]) -> Outputs:
    """Returns the outputs that the request asked for, and those that are sent without."""
    requested = requested_outputs(options)
    markups = options.get("markup") or [None] * len(translations)
    translations = [
        _filled(translation, markup)
        for translation, markup in zip(translations, markups, strict=False)
    ]
    outputs: Outputs = {}
    for name, output in OUTPUTS.items():
        values = [getattr(translation, output.field) for translation in translations]
        is_unasked = model in output.always or (output.if_any and any(values))
        if model in output.models and (name in requested or is_unasked):
            outputs[name] = output.codec.elements(values)
    return outputs


def _filled(translation: Translation, markup: Markup | None) -> Translation:
    """Returns a translation with a value of every output that it lacks and a fake has."""
    score = -float(len(translation.text)) if translation.score is None else translation.score
    has_text = bool(translation.text)
    defaults: dict[str, Any] = {
        "score": score,
        "confidence": score / 10,
        "token_scores": TokenScores((translation.text, "</s>") * has_text, (score, 0.0) * has_text),
        "alignments": WordAlignment(((0, 0),) * has_text),
        "codes": _placed(markup or Markup(), translation.text),
        "detected_language": "en",
        "detected_probability": 1.0,
        "bundle": _BUNDLE,
        "source_tokens": translation.output_tokens,
    }
    lacking = {
        name: value for name, value in defaults.items() if getattr(translation, name) is None
    }
    return replace(translation, **lacking)
