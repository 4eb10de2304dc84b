"""The model `info`: version, bundles, languages, options and limits of the server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from dragoman_options.frames import Answer, DataType, Request, Tensor
from dragoman_options.table import INFO
from dragoman_options.table import describe as options

from dragoman import __version__
from dragoman.kernel.errors import InvalidRequest
from dragoman_serving.engine.request_trace import RequestTrace
from dragoman_serving.models.loading import Layout
from dragoman_serving.models.routes import Bundle
from dragoman_serving.request.checks import bounds
from dragoman_serving.service import answers
from dragoman_serving.service.bundles import Bundles
from dragoman_serving.service.model_config import MODELS
from dragoman_serving.service.requests import RequestRules
from dragoman_serving.service.served_model import Model, Send
from dragoman_serving.translation.source_texts import MAX_REQUEST_CHARACTERS, MAX_TEXT_CHARACTERS


class InfoModel(Model):
    """See `Model`. Answers immediately, and needs no input."""

    def __init__(
        self,
        rules: RequestRules,
        send: Send,
        bundles: Bundles,
        metrics_port: int | None,
    ) -> None:
        """Start with nothing in flight.

        Args:
            rules: rules for the requests.
            send: sends frames to the client.
            bundles: the served bundles.
            metrics_port: Triton's metrics port; None: unknown, or there is no Triton.
        """
        super().__init__(rules)
        self._send, self._bundles, self._metrics_port = send, bundles, metrics_port

    def ask(self, request: Request, trace: RequestTrace | None = None) -> None:
        """See `Model`."""
        try:
            parsed = self._reader.read(request, needs_texts=False)
            if parsed.texts:
                raise InvalidRequest(f"{INFO} takes no text_input")
            if parsed.requested.options:
                raise InvalidRequest(f"{INFO} takes no {next(iter(parsed.requested.options))}")
            written = json.dumps(describe(self._bundles, self._metrics_port))
            tensor = Tensor.of(INFO, DataType.BYTES, (1,), [written.encode()])
            self._send(Answer(request.number, (tensor,)).pack())
        except Exception as error:  # one request's error must not reach the others
            self._send(answers.of_error(error, request.number, trace, request.id).pack())
        else:
            if trace is not None:
                trace.end()


def describe(bundles: Bundles, metrics_port: int | None) -> dict[str, Any]:
    """Returns the description of a server, for JSON.

    The state that changes when a bundle is loaded or unloaded is only in `loaded`. So a cache that
    depends on the bundles can ignore that member.

    Args:
        bundles: the served bundles.
        metrics_port: Triton's metrics port; None: unknown.
    """
    routes = bundles.routes
    limits = _limits(routes.bundles)
    return {
        "version": __version__,
        "models": MODELS,
        "bundles": [_described(bundle, bundles.layout(bundle)) for bundle in routes.bundles],
        "loaded": [resident.name for resident in bundles.keeper.residents if resident.is_loaded],
        "languages": routes.languages,
        "directions": routes.directions,
        "pairs": [asdict(pair) for pair in routes.pairs],
        "options": options(limits),
        "limits": {
            **limits,
            "text_characters": MAX_TEXT_CHARACTERS,
            "request_characters": MAX_REQUEST_CHARACTERS,
            "request_sentences": bundles.most_sentences,
            # Each bundle cuts longer sentences at its own limit; no request is cut below this one.
            "sentence_tokens": min(
                bundle.manifest.limits.sentence_tokens for bundle in routes.bundles
            ),
        },
        "metrics_port": metrics_port,
    }


def _described(bundle: Bundle, layout: Layout | None) -> dict[str, Any]:
    return {
        "name": bundle.name,
        "identity": bundle.manifest.identity,
        "precision": layout and layout.precision,
        "runtime": layout and layout.runtime,
        "instruction_set": layout and layout.instruction_set,
        "directions": bundle.manifest.all_directions,
    }


def _limits(bundles: Sequence[Bundle]) -> dict[str, float]:
    """The largest limits of all bundles; each bundle also checks its own limits."""
    limits: dict[str, float] = {}
    for bundle in bundles:
        manifest = bundle.manifest
        for name, most in bounds(manifest.limits, manifest.dimensions.vocab_size).items():
            limits[name] = max(most, limits.get(name, most))
    return limits
