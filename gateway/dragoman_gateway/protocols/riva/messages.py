"""Messages of NVIDIA Riva's translation service and of gRPC's health service.

They are defined here by hand, with their field numbers, and become classes at import time, so there
is no generated code. Riva's messages for speech are not included.

Source: https://docs.nvidia.com/deeplearning/riva/user-guide/docs/reference/protos/riva_nmt.proto.html
and https://github.com/grpc/grpc/blob/master/doc/health-checking.md
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FIELD = descriptor_pb2.FieldDescriptorProto
_NMT = "nvidia.riva.nmt"
_HEALTH = "grpc.health.v1"
TRANSLATION_SERVICE = f"{_NMT}.RivaTranslation"
HEALTH_SERVICE = f"{_HEALTH}.Health"

_TEXT, _TEXTS = "", "repeated"
_MESSAGES: dict[str, dict[str, dict[str, tuple[int, str]]]] = {
    "nvidia.riva": {"RequestId": {"value": (1, _TEXT)}},
    _NMT: {
        "TranslateTextRequest": {
            "texts": (1, _TEXTS),
            "model": (2, _TEXT),
            "source_language": (3, _TEXT),
            "target_language": (4, _TEXT),
            "dnt_phrases": (5, _TEXTS),
            "max_len_variation": (6, _TEXT),
            "id": (100, ".nvidia.riva.RequestId"),
        },
        "Translation": {"text": (1, _TEXT), "language": (2, _TEXT)},
        "TranslateTextResponse": {
            "translations": (1, f"repeated .{_NMT}.Translation"),
            "id": (100, ".nvidia.riva.RequestId"),
        },
        "AvailableLanguageRequest": {"model": (1, _TEXT)},
        "LanguagePair": {"src_lang": (1, _TEXTS), "tgt_lang": (2, _TEXTS)},
        "AvailableLanguageResponse": {"languages": (1, f"map .{_NMT}.LanguagePair")},
    },
    _HEALTH: {
        "HealthCheckRequest": {"service": (1, _TEXT)},
        "HealthCheckResponse": {"status": (1, "enum")},
    },
}
"""Fields by package and message, with number and type; an empty type is a string."""


def _described() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()  # separate: names may be taken
    for package, messages in _MESSAGES.items():
        file = descriptor_pb2.FileDescriptorProto(
            name=f"dragoman/{package}.proto", package=package, syntax="proto3"
        )
        if package == _NMT:
            file.dependency.append("dragoman/nvidia.riva.proto")
        for name, fields in messages.items():
            message = file.message_type.add(name=name)
            for field, (number, holds) in fields.items():
                _add_field(message, f".{package}.{name}", field, number, holds)
        pool.Add(file)
    return pool


def _add_field(message: Any, full_name: str, name: str, number: int, holds: str) -> None:
    label = (
        _FIELD.LABEL_REPEATED if holds.startswith(("repeated", "map")) else _FIELD.LABEL_OPTIONAL
    )
    field = message.field.add(name=name, number=number, label=label, type=_FIELD.TYPE_STRING)
    kind = holds.rpartition(" ")[2]
    if holds.startswith("map"):  # on the wire: a repeated message with a key and a value
        entry = message.nested_type.add(name="LanguagesEntry")
        entry.options.map_entry = True
        _add_field(entry, full_name, "key", 1, _TEXT)
        _add_field(entry, full_name, "value", 2, kind)
        field.type, field.type_name = _FIELD.TYPE_MESSAGE, f"{full_name}.LanguagesEntry"
    elif kind.startswith("."):
        field.type, field.type_name = _FIELD.TYPE_MESSAGE, kind
    elif kind == "enum":
        statuses = message.enum_type.add(name="ServingStatus")
        for value, status in enumerate(("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")):
            statuses.value.add(name=status, number=value)
        field.type, field.type_name = _FIELD.TYPE_ENUM, f"{full_name}.ServingStatus"


_POOL = _described()


def _class(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(name))


TranslateTextRequest = _class(f"{_NMT}.TranslateTextRequest")
TranslateTextResponse = _class(f"{_NMT}.TranslateTextResponse")
AvailableLanguageRequest = _class(f"{_NMT}.AvailableLanguageRequest")
AvailableLanguageResponse = _class(f"{_NMT}.AvailableLanguageResponse")
HealthCheckRequest = _class(f"{_HEALTH}.HealthCheckRequest")
HealthCheckResponse = _class(f"{_HEALTH}.HealthCheckResponse")
