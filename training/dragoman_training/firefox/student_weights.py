"""Converts the tensors of a student to ours.

As for other models of Marian (`dragoman_training.marian.weights`), ids are put in our order, and
the components of all vectors too, because Marian's positions have all sines first. Codes of 8 bits
stay as they are: only their order changes.

Decoding starts with a zero vector, which is the embedding of our start token.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dragoman.kernel.tensors import SCALES
from dragoman_training.firefox.student_file import Indices, Matrix, StudentFile, joined
from dragoman_training.firefox.student_settings import StudentSettings
from dragoman_training.marian.pieces import Entry
from dragoman_training.marian.weights import paired_order
from dragoman_training.network.architecture import NEVER, ModelConfig
from dragoman_training.run.checkpoint_folder import Arrays

_NORM_EPSILON = 1e-6


def convert(
    file: StudentFile,
    theirs: StudentSettings,
    src_entries: Sequence[Entry],
    tgt_entries: Sequence[Entry],
) -> tuple[Arrays, ModelConfig]:
    """Convert a file's tensors to our names and our order.

    Args:
        file: the student; its tensors are taken.
        theirs: its settings.
        src_entries: of the source vocabulary, in our order.
        tgt_entries: of the target vocabulary, in our order.

    Returns:
        All weights by our names, matrices of codes with their scales; and the model's
        configuration.

    Raises:
        UsageError: a tensor is missing, damaged or of another shape, or is one too many.
    """
    return _Weights(file, theirs, src_entries, tgt_entries).converted()


class _Weights:
    """Converts a model's tensors."""

    def __init__(
        self,
        file: StudentFile,
        theirs: StudentSettings,
        src_entries: Sequence[Entry],
        tgt_entries: Sequence[Entry],
    ) -> None:
        self._file, self._theirs = file, theirs
        self._src_entries, self._tgt_entries = src_entries, tgt_entries
        self._arrays: Arrays = {}

    def converted(self) -> tuple[Arrays, ModelConfig]:
        """All weights, and the configuration."""
        theirs = self._theirs
        if theirs.one_table:
            self._table("Wemb", "embedding", self._tgt_entries)
        else:
            self._table("decoder_Wemb", "embedding", self._tgt_entries)
            self._table("encoder_Wemb", "src_embedding", self._src_entries)
        self._output_bias()
        for layer in range(theirs.encoder_layers):
            source, name = f"encoder_l{layer + 1}", f"encoder_layers.{layer}"
            self._attention(f"{source}_self", f"{name}.self_attention")
            self._feed_forward(source, name)
        for layer in range(theirs.decoder_layers):
            source, name = f"decoder_l{layer + 1}", f"decoder_layers.{layer}"
            self._recurrence(f"{source}_rnn", f"{name}.ssru")
            self._attention(f"{source}_context", f"{name}.cross_attention")
            self._feed_forward(source, name)
        self._file.check_empty()
        return self._arrays, self._model()

    def _model(self) -> ModelConfig:
        theirs = self._theirs
        return ModelConfig(
            vocab_size=len(self._tgt_entries),
            src_vocab_size=None if theirs.one_table else len(self._src_entries),
            model_size=theirs.model_size,
            feed_forward_size=theirs.feed_forward_size,
            heads=theirs.heads,
            encoder_layers=theirs.encoder_layers,
            decoder_layers=theirs.decoder_layers,
            decoder="ssru",
            attention_bias=True,
            output_bias=True,
            norm_epsilon=_NORM_EPSILON,
            position_rates="inclusive",
        )

    def _table(self, theirs: str, ours: str, entries: Sequence[Entry]) -> None:
        rows = sum(entry.marian_id is not None for entry in entries)
        table = self._file.table(theirs, rows, self._theirs.model_size)
        ids = np.array([-1 if entry.marian_id is None else entry.marian_id for entry in entries])
        zero = np.zeros((1, table.values.shape[1]), table.values.dtype)
        scales = table.scales
        if scales is not None:
            scales = np.concatenate((scales, scales[:1]))
        padded = Matrix(np.concatenate((table.values, zero)), scales)
        self._put_matrix(f"{ours}.weight", padded.picked(ids, self._order))

    def _output_bias(self) -> None:
        entries = self._tgt_entries
        size = sum(entry.marian_id is not None for entry in entries)
        bias = self._file.vector("decoder_ff_logit_out_b", size)
        self._arrays["output_bias"] = np.array(
            [
                bias[entry.marian_id] if entry.is_said and entry.marian_id is not None else NEVER
                for entry in entries
            ],
            np.float32,
        )

    def _recurrence(self, theirs: str, ours: str) -> None:
        size, order = self._theirs.model_size, self._order
        for source, name in (("W", "candidate"), ("Wf", "forget")):
            weight = self._file.matrix(f"{theirs}_{source}", size, size)
            self._put_matrix(f"{ours}.{name}.weight", weight.picked(order, order))
        self._arrays[f"{ours}.forget.bias"] = self._file.vector(f"{theirs}_bf", size)[order]
        self._norm(f"{theirs}_ffn_ln", f"{ours}_norm")

    def _attention(self, theirs: str, ours: str) -> None:
        size, order = self._theirs.model_size, self._order
        query, key, value, output = (
            self._file.matrix(f"{theirs}_W{letter}", size, size) for letter in "qkvo"
        )
        of_query, of_key, of_value, of_output = (
            self._file.vector(f"{theirs}_b{letter}", size) for letter in "qkvo"
        )
        self._put_matrix(f"{ours}.query.weight", query.picked(columns=order))
        self._put_matrix(f"{ours}.key_value.weight", joined(key, value).picked(columns=order))
        self._put_matrix(f"{ours}.output.weight", output.picked(rows=order))
        self._arrays[f"{ours}.query.bias"] = of_query
        self._arrays[f"{ours}.key_value.bias"] = np.concatenate((of_key, of_value))
        self._arrays[f"{ours}.output.bias"] = of_output[order]
        self._norm(f"{theirs}_Wo_ln", f"{ours}_norm")

    def _feed_forward(self, theirs: str, ours: str) -> None:
        size, wide, order = self._theirs.model_size, self._theirs.feed_forward_size, self._order
        inner = self._file.matrix(f"{theirs}_ffn_W1", size, wide)
        outer = self._file.matrix(f"{theirs}_ffn_W2", wide, size)
        self._put_matrix(f"{ours}.feed_forward.inner.weight", inner.picked(columns=order))
        self._put_matrix(f"{ours}.feed_forward.outer.weight", outer.picked(rows=order))
        self._arrays[f"{ours}.feed_forward.inner.bias"] = self._file.vector(
            f"{theirs}_ffn_b1", wide
        )
        self._arrays[f"{ours}.feed_forward.outer.bias"] = self._file.vector(
            f"{theirs}_ffn_b2", size
        )[order]
        self._norm(f"{theirs}_ffn_ffn_ln", f"{ours}.feed_forward_norm")

    def _norm(self, theirs: str, ours: str) -> None:
        size = self._theirs.model_size
        for source, name in (("scale", "weight"), ("bias", "bias")):
            self._arrays[f"{ours}.{name}"] = self._file.vector(f"{theirs}_{source}", size)[
                self._order
            ]

    def _put_matrix(self, name: str, matrix: Matrix) -> None:
        self._arrays[name] = matrix.values
        if matrix.scales is not None:
            self._arrays[name + SCALES] = matrix.scales

    @property
    def _order(self) -> Indices:
        return paired_order(self._theirs.model_size)
