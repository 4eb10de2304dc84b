"""The Triton model that translates with CTranslate2: one call for each batch from Triton.

Source: https://github.com/triton-inference-server/python_backend#default-mode
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import sentencepiece
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]

from dragoman.kernel.manifest import Manifest
from dragoman.kernel.text import END_ID, language_tag
from lab.peers.workers.ctranslate2_worker import PieceTranslator
from lab.peers.workers.worker_protocol import BatchSearch


@dataclass(frozen=True)
class Options:
    """Search options; texts with equal options share a call."""

    target_language: str = "de"
    beam_width: int = 4
    length_penalty: float = 0.6


class TranslateModel:
    """CTranslate2 with the vocabulary and the limits of the bundle beside `model.py`."""

    def initialize(self, arguments: dict[str, str]) -> None:
        """Load the model that Triton names."""
        parameters = {
            name: value["string_value"]
            for name, value in json.loads(arguments["model_config"])["parameters"].items()
        }
        bundle = Path(arguments["model_repository"]) / arguments["model_version"] / "bundle"
        manifest = Manifest.load(bundle)
        self._limits = manifest.limits
        self._pieces = sentencepiece.SentencePieceProcessor(
            model_file=str(bundle / manifest.tokenizer)
        )
        self._end = self._pieces.IdToPiece(END_ID)
        inter_threads = int(parameters["inter_threads"])
        translator = ctranslate2.Translator(
            parameters["model"],
            device="cpu",
            compute_type=parameters["compute_type"],
            inter_threads=inter_threads,
            intra_threads=int(parameters["intra_threads"]),
        )
        self._translator = PieceTranslator(translator, inter_threads, endless=False)

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Answer a batch of requests of one text each, in order."""
        groups: dict[Options, list[int]] = {}
        for index, request in enumerate(requests):
            groups.setdefault(_read_options(request), []).append(index)
        responses: list[Any] = [None] * len(requests)
        for options, indices in groups.items():
            texts = [_read(requests[index], "text_input") for index in indices]
            for index, tokens in zip(indices, self._translate(texts, options), strict=True):
                responses[index] = self._response(tokens)
        return responses

    def _translate(self, texts: Sequence[str], options: Options) -> list[list[str]]:
        """The tokens of each text's translation, in one call."""
        tag = language_tag(options.target_language)
        sources = [[tag, *self._pieces.EncodeAsPieces(text), self._end] for text in texts]
        # A call has one limit: that of its longest sentence.
        max_tokens = max(self._limits.target_tokens(len(source)) for source in sources)
        search = BatchSearch(options.beam_width, len(texts), options.length_penalty)
        return self._translator.translate(sources, max_tokens, search)

    def _response(self, tokens: list[str]) -> Any:
        text = self._pieces.DecodePieces(tokens).encode("utf-8")
        count = len(tokens) - (self._end in tokens)
        return pb_utils.InferenceResponse(
            [
                pb_utils.Tensor("text_output", np.array([[text]], dtype=np.object_)),
                pb_utils.Tensor("output_tokens", np.array([[count]], dtype=np.int32)),
            ]
        )


def _read_options(request: Any) -> Options:
    """The options of a request; Triton has checked names and types."""
    names = {tensor.name() for tensor in request.inputs()} - {"text_input"}
    return Options(**{name: _read(request, name) for name in names})


def _read(request: Any, name: str) -> Any:
    """The one value of a tensor of shape [1, 1]."""
    value = pb_utils.get_input_tensor_by_name(request, name).as_numpy().item()
    return value.decode("utf-8") if isinstance(value, bytes) else value
