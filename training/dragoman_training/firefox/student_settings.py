"""The settings in a student's file, `special:model.yml`: its sizes, and what it must not have.

A setting that this project does not know, or that has another value than it supports, is refused by
name: such a model would translate wrongly.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dragoman.kernel.errors import UsageError
from dragoman_training.firefox.student_file import SETTINGS

Value = str | list[str]

_EXPECTED: dict[str, Value] = {
    "type": "transformer",
    "transformer-decoder-autoreg": "rnn",
    "dec-cell": "ssru",
    "dec-cell-base-depth": "2",
    "dec-cell-high-depth": "1",
    "input-types": [],
    "layer-normalization": "false",
    "lemma-dependency": "",
    "lemma-dim-emb": "0",
    "output-omit-bias": "false",
    "right-left": "false",
    "skip": "false",
    "tied-embeddings-src": "false",
    "transformer-decoder-dim-ffn": "0",
    "transformer-decoder-ffn-depth": "0",
    "transformer-ffn-activation": "relu",
    "transformer-ffn-depth": "2",
    "transformer-guided-alignment-layer": "last",
    "transformer-no-affine": "false",
    "transformer-no-bias": "false",
    "transformer-no-projection": "false",
    "transformer-pool": "false",
    "transformer-postprocess": "dan",
    "transformer-postprocess-emb": "d",
    "transformer-postprocess-top": "",
    "transformer-preprocess": "",
    "transformer-rnn-projection": "false",
    "transformer-tied-layers": [],
    "transformer-train-position-embeddings": "false",
    "ulr": "false",
}
"""The supported value of each setting that changes the network."""
_NECESSARY = ("type", "transformer-decoder-autoreg", "dec-cell", "transformer-postprocess")
"""Settings whose default in Marian is another network."""
_SIZES = {
    "model_size": "dim-emb",
    "feed_forward_size": "transformer-dim-ffn",
    "heads": "transformer-heads",
    "encoder_layers": "enc-depth",
    "decoder_layers": "dec-depth",
}
"""Marian's names of the fields of `StudentSettings`."""
_TIED_ALL, _TIED, _VOCABULARIES = "tied-embeddings-all", "tied-embeddings", "dim-vocabs"
_MOST_DIGITS = 10
_WITHOUT_EFFECT = {
    "bert-train-type-embeddings",
    "bert-type-vocab-size",
    "dim-rnn",
    "enc-cell",
    "enc-cell-depth",
    "enc-type",
    "factors-combine",
    "factors-dim-emb",
    "transformer-aan-activation",
    "transformer-aan-depth",
    "transformer-aan-nogate",
    "transformer-dim-aan",
    "ulr-dim-emb",
    "ulr-trainable-transformation",
    "version",
}
"""Settings of other networks, which Marian writes for every model."""


@dataclass(frozen=True)
class StudentSettings:
    """The settings of the network.

    Attributes:
        path: of the file.
        model_size: E.
        feed_forward_size: F.
        heads: H.
        encoder_layers: layers of the encoder.
        decoder_layers: layers of the decoder.
        src_vocab_size: entries of the source vocabulary.
        tgt_vocab_size: entries of the target vocabulary.
        one_table: whether both sides share one embedding.
    """

    path: Path
    model_size: int
    feed_forward_size: int
    heads: int
    encoder_layers: int
    decoder_layers: int
    src_vocab_size: int
    tgt_vocab_size: int
    one_table: bool

    @classmethod
    def parse(cls, path: Path, text: str) -> StudentSettings:
        """Parse the settings in a file.

        Raises:
            UsageError: they are damaged, or those of another kind of model.
        """
        values = _parsed(path, text)
        _check(path, values)
        sizes = {field: _number(path, name, values[name]) for field, name in _SIZES.items()}
        vocabularies = [_number(path, _VOCABULARIES, size) for size in values[_VOCABULARIES]]
        one_table, tied = values.get(_TIED_ALL) == "true", values.get(_TIED) == "true"
        if not one_table and not tied:
            raise UsageError(
                f"{path}: {SETTINGS}: neither {_TIED_ALL} nor {_TIED} is true: an output layer "
                "with a matrix of its own is not supported"
            )
        if len(vocabularies) != 2 or (one_table and vocabularies[0] != vocabularies[1]):
            raise UsageError(f"{path}: {SETTINGS}: {_VOCABULARIES} is {values[_VOCABULARIES]}")
        return cls(
            path,
            src_vocab_size=vocabularies[0],
            tgt_vocab_size=vocabularies[1],
            one_table=one_table,
            **sizes,
        )


def _check(path: Path, values: dict[str, Value]) -> None:
    known = {*_EXPECTED, *_SIZES.values(), *_WITHOUT_EFFECT, _TIED_ALL, _TIED, _VOCABULARIES}
    for name in (*_NECESSARY, *_SIZES.values(), _VOCABULARIES):
        if name not in values:
            raise UsageError(f"{path}: {SETTINGS}: {name} is missing")
    for name, value in values.items():
        if name not in known:
            raise UsageError(f"{path}: {SETTINGS}: {name} ({value!r}) is not a known setting")
        expected = _EXPECTED.get(name, value)
        if value != expected:
            raise UsageError(
                f"{path}: {SETTINGS}: {name} is {value!r}; only {expected!r} is supported"
            )
    if not isinstance(values[_VOCABULARIES], list):
        raise UsageError(f"{path}: {SETTINGS}: {_VOCABULARIES} is not a list")


def _number(path: Path, name: str, value: Value) -> int:
    is_number = isinstance(value, str) and value.isdecimal() and len(value) < _MOST_DIGITS
    number = int(str(value)) if is_number else 0
    if number < 1:
        raise UsageError(f"{path}: {SETTINGS}: {name} is {value!r}: expected a number")
    return number


def _parsed(path: Path, text: str) -> dict[str, Value]:
    """Parse the YAML that Marian writes: names with a word, a quoted string or a list of words."""
    values: dict[str, Value] = {}
    name = ""
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        key, colon, value = stripped.partition(":")
        if line[0] not in " -" and colon and (not value or value[0] == " "):
            name = key
            if name in values:
                raise UsageError(f"{path}: {SETTINGS}: {name} is there twice")
            values[name] = _value(value.strip())
        elif name and stripped.startswith("- ") and isinstance(values[name] or [], list):
            values[name] = [*values[name], _word(stripped.removeprefix("- "))]
        elif name and line[0] == " " and not values[name] and stripped[0] == "[":
            values[name] = _value(stripped)
        else:
            raise UsageError(f"{path}: {SETTINGS}: line {number} is not understood: {line[:60]!r}")
    return values


def _value(written: str) -> Value:
    if written.startswith("[") and written.endswith("]"):
        words = [word.strip() for word in written[1:-1].split(",")]
        return [_word(word) for word in words if word]
    return _word(written)


def _word(written: str) -> str:
    for quote in ('"', "'"):
        if len(written) > 1 and written[0] == written[-1] == quote:
            return written[1:-1]
    return written
