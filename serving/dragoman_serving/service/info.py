"""The model `info`: what the server is, what it serves, and what a request may ask."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from dragoman_options.table import INFO
from dragoman_options.table import describe as options

from dragoman import __version__
from dragoman.kernel.errors import InvalidRequest
from dragoman_serving.request.checks import bounds
from dragoman_serving.service import answers
from dragoman_serving.service.configuration import RULES, check_names
from dragoman_serving.service.frames import Answer, DataType, Hello, Request, Tensor
from dragoman_serving.service.model_config import MODELS
from dragoman_serving.service.served_model import Model, Send, parameters
from dragoman_serving.translation.source_texts import MAX_REQUEST_CHARACTERS, MAX_TEXT_CHARACTERS
from dragoman_serving.translation.translator import Translator


class InfoModel(Model):
    """See `Model`. Answers at once, and needs no input."""

    def __init__(
        self,
        hello: Hello,
        send: Send,
        translator: Callable[[], Translator],
        metrics_port: int | None,
    ) -> None:
        """Begin with nothing in flight.

        Args:
            hello: from Triton's side.
            send: to it.
            translator: gives the engine with its texts, or raises a `DragomanError`.
            metrics_port: of Triton.

        Raises:
            DragomanError: the configuration is not usable.
        """
        check_names(parameters(hello), RULES)
        super().__init__(hello)
        self._send, self._translator, self._metrics_port = send, translator, metrics_port

    def ask(self, request: Request) -> None:
        """See `Model`."""
        try:
            asked = self._reader.read(request)
            if asked.texts:
                raise InvalidRequest(f"{INFO} takes no text_input")
            if asked.wanted.options:
                raise InvalidRequest(f"{INFO} takes no {next(iter(asked.wanted.options))}")
            written = json.dumps(describe(self._translator(), self._metrics_port))
            tensor = Tensor.of(INFO, DataType.BYTES, (1,), [written.encode()])
            self._send(Answer(request.number, (tensor,)).pack())
        except Exception as error:  # one request's error must not reach the others
            self._send(answers.of_error(error, request.number).pack())


def describe(translator: Translator, metrics_port: int | None) -> dict[str, Any]:
    """What a server says of itself, as JSON has it.

    Args:
        translator: that it serves.
        metrics_port: of Triton; None: nobody knows.
    """
    manifest = translator.manifest
    limits = bounds(manifest.limits, manifest.dimensions.vocab_size)
    return {
        "version": __version__,
        "models": MODELS,
        "bundles": [
            {
                "identity": manifest.identity,
                "precision": translator.layout.precision,
                "runtime": translator.layout.runtime,
                "instruction_set": translator.layout.instruction_set,
                "directions": manifest.all_directions,
            }
        ],
        "languages": manifest.languages,
        "directions": manifest.all_directions,
        "options": options(limits),
        "limits": {
            **limits,
            "text_characters": MAX_TEXT_CHARACTERS,
            "request_characters": MAX_REQUEST_CHARACTERS,
            "request_sentences": translator.most_sentences,
        },
        "metrics_port": metrics_port,
    }
