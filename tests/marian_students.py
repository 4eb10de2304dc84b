"""Made-up models in the format of Firefox's, as input of the import.

All numbers come from random integers, so that the files are the same on every machine. The words of
the vocabularies name their ids: `w0123` has the id 123, so that a text shows its ids.
"""

from __future__ import annotations

import functools
import io
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import sentencepiece

FLOAT32, INT8, INTGEMM8 = 0x0404, 0x0101, 0x4101
MODEL, VOCABULARY = "model.ende.intgemm.alphas.bin", "vocab.ende.spm"
SRC_VOCABULARY, TGT_VOCABULARY = "srcvocab.ende.spm", "trgvocab.ende.spm"
LISTS = "lex.50.50.ende.s2t.bin"
FIRST = 50
"""Ids below this are in every shortlist."""
_UNIT = 16
"""Codes are sums of four integers up to this size, so that no sum of two products of 8-bit codes
passes 16 bits: Marian's own int8 would saturate."""
_DEVIATION = float(np.sqrt(4 * ((2 * _UNIT + 1) ** 2 - 1) / 12))
"""Standard deviation of the codes."""
_MASK = (1 << 64) - 1
_OTHER_SETTINGS = """\
bert-train-type-embeddings: true
bert-type-vocab-size: 2
dec-cell: ssru
dec-cell-base-depth: 2
dec-cell-high-depth: 1
dim-rnn: 1024
enc-cell: gru
enc-cell-depth: 1
enc-type: bidirectional
factors-combine: sum
factors-dim-emb: 0
input-types:
  []
layer-normalization: false
lemma-dependency: ""
lemma-dim-emb: 0
output-omit-bias: false
right-left: false
skip: false
tied-embeddings-src: false
transformer-aan-activation: swish
transformer-aan-depth: 2
transformer-aan-nogate: false
transformer-decoder-autoreg: rnn
transformer-decoder-dim-ffn: 0
transformer-decoder-ffn-depth: 0
transformer-dim-aan: 2048
transformer-ffn-activation: relu
transformer-ffn-depth: 2
transformer-guided-alignment-layer: last
transformer-no-affine: false
transformer-no-bias: false
transformer-no-projection: false
transformer-pool: false
transformer-postprocess: dan
transformer-postprocess-emb: d
transformer-postprocess-top: ""
transformer-preprocess: ""
transformer-rnn-projection: false
transformer-tied-layers:
  []
transformer-train-position-embeddings: false
type: transformer
ulr: false
ulr-dim-emb: 0
ulr-trainable-transformation: false
version: v1.12.14 2d067af 2024-02-16 11:44:13 -0500
"""

_ACTIVATIONS = np.full((1, 1), 25.4, np.float32)
"""Multiplier of a matrix's inputs, which Dragoman does not use."""
Floats = npt.NDArray[np.float32]
Coded = tuple[npt.NDArray[np.int8], np.float32]
"""Codes [inputs, outputs] or [entries, size], and their multiplier."""
Tensors = dict[str, "Floats | Coded"]


@dataclass(frozen=True)
class Student:
    """A model to make.

    With `two_tables`, each side has a vocabulary and an embedding of its own; with `in_floats`,
    matrices are stored as numbers instead of codes.
    """

    model_size: int = 64
    feed_forward_size: int = 128
    heads: int = 4
    encoder_layers: int = 2
    decoder_layers: int = 2
    entries: int = 1000
    two_tables: bool = False
    in_floats: bool = False
    strength: float = 2.0
    """Of what the decoder reads; with less, rounding to 8 bits changes less."""
    end_bias: float = 5.0
    """Added to the score of the end symbol; larger makes translations shorter."""
    seed: int = 1


KINDS = {
    "shared": Student(),
    "two tables": Student(two_tables=True, seed=2),
    "four decoder layers": Student(model_size=128, decoder_layers=4, end_bias=6.0, seed=3),
    "wide": Student(
        model_size=192,
        feed_forward_size=256,
        heads=6,
        encoder_layers=3,
        end_bias=6.0,
        seed=4,
    ),
    "one decoder layer": Student(
        feed_forward_size=320, heads=2, encoder_layers=1, decoder_layers=1, entries=700, seed=5
    ),
}


def write_student(folder: Path, student: Student) -> None:
    """Write a model's files."""
    folder.mkdir(parents=True, exist_ok=True)
    write_model(folder / MODEL, settings_of(student), tensors_of(student))
    names = (SRC_VOCABULARY, TGT_VOCABULARY) if student.two_tables else (VOCABULARY,)
    for name in names:
        (folder / name).write_bytes(word_vocabulary(student.entries))
    write_lists(folder / LISTS, lists_of(student), FIRST)


def made_up_lines(student: Student, number: int) -> list[list[int]]:
    """Source sentences as ids, without the end symbol."""
    rng = np.random.RandomState(student.seed + 100)
    lengths = rng.randint(1, 25, number)
    return [rng.randint(2, student.entries, length).tolist() for length in lengths]


def as_text(ids: Sequence[int]) -> str:
    """The text of ids in a vocabulary of `word_vocabulary`."""
    return " ".join(f"w{token_id:04d}" for token_id in ids)


def as_ids(text: str) -> list[int]:
    """The ids that a text names."""
    return [int(word.removeprefix("w")) for word in text.split()]


def settings_of(student: Student) -> str:
    """The text of `special:model.yml`."""
    return (
        f"dim-emb: {student.model_size}\n"
        f"dim-vocabs:\n  - {student.entries}\n  - {student.entries}\n"
        f"enc-depth: {student.encoder_layers}\n"
        f"dec-depth: {student.decoder_layers}\n"
        f"transformer-dim-ffn: {student.feed_forward_size}\n"
        f"transformer-heads: {student.heads}\n"
        f"tied-embeddings: {str(student.two_tables).lower()}\n"
        f"tied-embeddings-all: {str(not student.two_tables).lower()}\n"
        f"{_OTHER_SETTINGS}"
    )


@functools.cache
def tensors_of(student: Student) -> Tensors:
    """Tensors by Marian's names; the weights make tokens depend on the source and the prefix."""
    draw = _Drawing(student)
    tables = ("encoder_Wemb", "decoder_Wemb") if student.two_tables else ("Wemb",)
    for name in tables:
        draw.table(name)
    for layer in range(1, student.encoder_layers + 1):
        draw.attention(f"encoder_l{layer}_self", 0.75 * student.strength)
        draw.feed_forward(f"encoder_l{layer}")
    for layer in range(1, student.decoder_layers + 1):
        name = f"decoder_l{layer}_rnn"
        draw.matrix(f"{name}_W", student.model_size, student.model_size, student.strength)
        draw.matrix(f"{name}_Wf", student.model_size, student.model_size, 1.0)
        draw.vector(f"{name}_bf", student.model_size, 1.0)
        draw.norm(f"{name}_ffn_ln")
        draw.attention(f"decoder_l{layer}_context", student.strength)
        draw.feed_forward(f"decoder_l{layer}")
    bias = draw.vector("decoder_ff_logit_out_b", student.entries, 0.3)
    bias[0, 0] += np.float32(student.end_bias)
    bias[0, 1] = -30.0  # so that its probability does not count in a beam search
    return draw.tensors


class _Drawing:
    """Samples tensors of random integers."""

    def __init__(self, student: Student) -> None:
        self._student, self._rng = student, np.random.RandomState(student.seed)
        self.tensors: Tensors = {}

    def matrix(self, name: str, inputs: int, outputs: int, strength: float) -> None:
        """A matrix whose outputs are of the size of its inputs, times a strength."""
        codes = self._drawn(inputs, outputs)
        # Without a mean, so that what all inputs share does not decide.
        codes -= np.rint(codes.mean(axis=0)).astype(np.int64)
        self._put(name, codes, _DEVIATION * float(np.sqrt(inputs)) / strength)

    def table(self, name: str) -> None:
        """An embedding; vectors are of the size of position encodings."""
        size = self._student.model_size
        self._put(
            name, self._drawn(self._student.entries, size), _DEVIATION * float(np.sqrt(size)) / 3
        )

    def vector(self, name: str, size: int, deviation: float) -> Floats:
        """A vector, which may be changed."""
        drawn = self._drawn(1, size) * np.float32(deviation / _DEVIATION)
        self.tensors[name] = drawn.astype(np.float32)
        return self.tensors[name]  # type: ignore[return-value]

    def norm(self, name: str) -> None:
        """Scale and bias of a layer norm."""
        scale = self.vector(f"{name}_scale", self._student.model_size, 0.1)
        scale += np.float32(1)
        self.vector(f"{name}_bias", self._student.model_size, 0.1)

    def attention(self, name: str, strength: float) -> None:
        size = self._student.model_size
        for letter in "qkvo":
            self.matrix(f"{name}_W{letter}", size, size, strength)
            self.vector(f"{name}_b{letter}", size, 0.1)
        self.norm(f"{name}_Wo_ln")

    def feed_forward(self, name: str) -> None:
        sizes = self._student.model_size, self._student.feed_forward_size
        for number, (inputs, outputs) in enumerate((sizes, sizes[::-1]), start=1):
            self.matrix(f"{name}_ffn_W{number}", inputs, outputs, 1.5)
            self.vector(f"{name}_ffn_b{number}", outputs, 0.1)
        self.norm(f"{name}_ffn_ffn_ln")

    def _drawn(self, rows: int, columns: int) -> npt.NDArray[np.int64]:
        drawn = self._rng.randint(-_UNIT, _UNIT + 1, (4, rows, columns))
        return np.asarray(drawn.sum(axis=0), np.int64)

    def _put(self, name: str, codes: npt.NDArray[np.int64], multiplier: float) -> None:
        coded = codes.astype(np.int8), np.float32(multiplier)
        if self._student.in_floats:
            self.tensors[name] = dequantised(coded)
        else:
            self.tensors[name] = coded
            self.tensors[f"{name}_QuantMultA"] = _ACTIVATIONS
            if name == "Wemb":
                self.tensors["none_QuantMultA"] = _ACTIVATIONS


def dequantised(coded: Coded) -> Floats:
    """The numbers of codes, as Marian computes them."""
    codes, multiplier = coded
    return codes.astype(np.float32) * (np.float32(1) / multiplier)


def float_twin(student: Student) -> Student:
    """The same model, stored in float32."""
    return replace(student, in_floats=True)


def write_model(path: Path, settings: str, tensors: Tensors) -> None:
    """Write a model's binary file."""
    items = [_item(name, tensors[name]) for name in sorted(tensors)]
    text = settings.encode() + b"\0"
    items.append(("special:model.yml", INT8, (len(text),), text))
    head = struct.pack("<2Q", 1, len(items))
    for name, kind, shape, data in items:
        head += struct.pack("<4Q", len(name) + 1, kind, len(shape), len(data))
    head += b"".join(name.encode() + b"\0" for name, *_ in items)
    head += b"".join(struct.pack(f"<{len(shape)}i", *shape) for _, _, shape, _ in items)
    padding = (len(head) + 8) // 256 * 256 + 256 - len(head) - 8
    head += struct.pack("<Q", padding) + bytes(padding)
    path.write_bytes(head + b"".join(data for *_, data in items))


def _item(name: str, tensor: Floats | Coded) -> tuple[str, int, tuple[int, ...], bytes]:
    if isinstance(tensor, tuple):
        codes, multiplier = tensor
        stored = codes if "Wemb" in name else codes.T
        data = np.ascontiguousarray(stored).tobytes() + np.float32(multiplier).tobytes()
        return name, INTGEMM8, codes.shape, data + bytes(-len(data) % 256)
    data = tensor.astype("<f4").tobytes()
    return name, FLOAT32, tensor.shape, data + bytes(-len(data) % 256)


def lists_of(student: Student) -> list[list[int]]:
    """The listed target ids of each source id; never empty."""
    rng = np.random.RandomState(student.seed + 200)
    return [np.unique(rng.randint(0, student.entries, 30)).tolist() for _ in range(student.entries)]


def write_lists(path: Path, lists: Sequence[Sequence[int]], first: int) -> None:
    """Write a model's shortlists."""
    ids = np.array([token_id for row in lists for token_id in row], "<u4")
    begins = np.cumsum([0, *map(len, lists)]).astype("<u8")
    body = struct.pack("<4Q", first, 50, len(begins), len(ids)) + begins.tobytes() + ids.tobytes()
    path.write_bytes(struct.pack("<2Q", 0xF11A48D5013417F5, checksum(body)) + body)


def checksum(body: bytes) -> int:
    """The checksum of what follows it in a file of shortlists."""
    value = 0
    for (word,) in struct.iter_unpack("<Q", body[: len(body) // 8 * 8]):
        value = (value ^ (word + 0x9E3779B9 + (value << 6) + (value >> 2))) & _MASK
    return value


@functools.cache
def word_vocabulary(size: int) -> bytes:
    """A SentencePiece model of whole words: `w0002` has the id 2, and so on."""
    return trained_vocabulary(
        [f"w{token_id:04d}\t{2 * size - token_id}" for token_id in range(2, size)],
        input_format="tsv",
        model_type="word",
        vocab_size=size,
    )


def trained_vocabulary(lines: Sequence[str], **options: Any) -> bytes:
    """Train a SentencePiece model with Marian's special tokens."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(lines),
        model_writer=model,
        bos_id=-1,
        eos_id=0,
        unk_id=1,
        pad_id=-1,
        minloglevel=2,
        **options,
    )
    return model.getvalue()
