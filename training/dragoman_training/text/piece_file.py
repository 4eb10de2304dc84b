"""The format of SentencePiece model files, as far as it is needed here.

The protobuf module in SentencePiece's package needs the newest protobuf release, which other
packages do not allow. Fields that are not described here survive reading and writing a file.

Source: https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from dragoman.kernel.errors import UsageError

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
"""Types of vocabulary entries."""

_Field = descriptor_pb2.FieldDescriptorProto
_MESSAGES = {
    "Piece": (
        ("piece", 1, _Field.TYPE_STRING),
        ("score", 2, _Field.TYPE_FLOAT),
        ("type", 3, _Field.TYPE_INT32),
    ),
    "TrainerSpec": (
        ("vocab_size", 4, _Field.TYPE_INT32),
        ("unk_id", 40, _Field.TYPE_INT32),
        ("bos_id", 41, _Field.TYPE_INT32),
        ("eos_id", 42, _Field.TYPE_INT32),
        ("pad_id", 43, _Field.TYPE_INT32),
        ("unk_piece", 45, _Field.TYPE_STRING),
        ("bos_piece", 46, _Field.TYPE_STRING),
        ("eos_piece", 47, _Field.TYPE_STRING),
        ("pad_piece", 48, _Field.TYPE_STRING),
    ),
    "Model": (
        ("pieces", 1, "Piece"),
        ("trainer_spec", 2, "TrainerSpec"),
        ("self_test_data", 4, _Field.TYPE_BYTES),
    ),
}
_PACKAGE = "dragoman.sentencepiece"


def _described() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name=_PACKAGE, package=_PACKAGE, syntax="proto2")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field_name, number, kind in fields:
            field = message.field.add(name=field_name, number=number)
            field.label = _Field.LABEL_OPTIONAL
            if isinstance(kind, str):
                field.type, field.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
            else:
                field.type = kind
            if field_name == "pieces":
                field.label = _Field.LABEL_REPEATED
            if field_name == "type":
                field.default_value = str(NORMAL)
    return file


def _message(name: str) -> Any:
    descriptor = _POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}")
    return message_factory.GetMessageClass(descriptor)


_POOL = descriptor_pool.DescriptorPool()
_POOL.Add(_described())
Model, Piece = _message("Model"), _message("Piece")


def read_model(path: Path) -> Any:
    """Read a SentencePiece model.

    Raises:
        UsageError: it cannot be read, or is not a SentencePiece model.
    """
    try:
        return Model.FromString(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except DecodeError as error:
        raise UsageError(f"{path}: not a SentencePiece model") from error
