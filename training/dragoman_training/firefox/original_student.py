"""A Firefox model's logits as Marian computes them; see `dragoman_training.marian.original`.

Source of the decoder's recurrence, the SSRU: Kim et al. 2019, https://aclanthology.org/D19-5632
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import sentencepiece

from dragoman_training.firefox.student_file import StudentFile
from dragoman_training.firefox.student_importing import StudentFolder
from dragoman_training.firefox.student_settings import StudentSettings
from dragoman_training.marian.original import (
    Block,
    Original,
    normalized,
    relu,
    sigmoid,
    sines_then_cosines,
)
from dragoman_training.marian.stored_tensors import Floats

_PARTS = {"self": "self_", "cross": "context_", "ffn": "ffn_", "rnn": "rnn_"}
_NORM = {"self": "self_Wo", "cross": "context_Wo", "ffn": "ffn_ffn", "rnn": "rnn_ffn"}


class OriginalStudent(Original):
    """A model in the format of Firefox's."""

    never_generated = "<unk>"

    def __init__(self, folder: Path) -> None:
        """Read a model that was imported without an error."""
        files = StudentFolder.of(folder)
        file = StudentFile(files.model)
        settings = StudentSettings.parse(files.model, file.settings)
        self.layers = {"encoder": settings.encoder_layers, "decoder": settings.decoder_layers}
        self.heads = settings.heads
        self._tensors = file.numbers()
        self._pieces, tgt_pieces = (
            sentencepiece.SentencePieceProcessor(model_file=str(path))
            for path in (files.src_vocabulary, files.tgt_vocabulary)
        )
        self.src_entries, self.tgt_entries = (
            {pieces.IdToPiece(token_id): token_id for token_id in range(pieces.GetPieceSize())}
            for pieces in (self._pieces, tgt_pieces)
        )

    def source_ids(self, text: str, target: str) -> list[int]:  # noqa: ARG002 - has one target
        """See `Original`."""
        return [*self._pieces.EncodeAsIds(text), self.src_entries["</s>"]]

    def _placed(self, side: str, ids: Sequence[int]) -> Floats:
        embedded = self._table(side)[list(ids)]
        if side == "decoder":  # starts with a zero vector
            embedded = np.concatenate((np.zeros_like(embedded[:1]), embedded))
        size = embedded.shape[1]
        rates = 10000.0 ** -(np.arange(size // 2) / max(size // 2 - 1, 1))
        placed: Floats = embedded * np.float32(math.sqrt(size))
        return placed + sines_then_cosines(len(embedded), rates)

    def _table(self, side: str) -> Floats:
        shared = self._tensors.get("Wemb")
        return self._tensors[f"{side}_Wemb"] if shared is None else shared

    def _remembered(self, layer: int, states: Floats) -> Floats:
        block = ("decoder", layer, "rnn")
        kept = sigmoid(self._linear(block, "f", states))
        candidates = self._linear(block, "", states)
        cells = [np.zeros_like(states[0])]
        for share, candidate in zip(kept, candidates, strict=True):
            cells.append(share * cells[-1] + (1 - share) * candidate)
        return self._normalized(block, states + relu(np.stack(cells[1:])))

    def _output(self, states: Floats) -> Floats:
        return states @ self._table("decoder").T + self._tensors["decoder_ff_logit_out_b"]

    def _linear(self, block: Block, part: str, states: Floats) -> Floats:
        side, layer, kind = block
        name = f"{side}_l{layer + 1}_{_PARTS[kind]}"
        mapped: Floats = states @ self._tensors[f"{name}W{part}"]
        return mapped + self._tensors[f"{name}b{part}"] if part else mapped

    def _normalized(self, block: Block, states: Floats) -> Floats:
        side, layer, kind = block
        name = f"{side}_l{layer + 1}_{_NORM[kind]}_ln"
        scale, bias = (self._tensors[f"{name}_{part}"] for part in ("scale", "bias"))
        return normalized(states, scale, bias, 1e-6)

    def _activated(self, states: Floats) -> Floats:
        return relu(states)
