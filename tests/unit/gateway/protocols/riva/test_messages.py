"""Our description of Riva's messages, compared with that of NVIDIA's own client."""

from __future__ import annotations

from typing import Any

import pytest
from dragoman_gateway.protocols.riva import messages
from dragoman_gateway.protocols.riva.phrases import read_phrases, take_marks
from grpc_health.v1 import health_pb2
from riva.client.proto import riva_nmt_pb2

from tests.timing import fastest_s

PAIRS = [
    (messages.TranslateTextRequest, riva_nmt_pb2.TranslateTextRequest),
    (messages.TranslateTextResponse, riva_nmt_pb2.TranslateTextResponse),
    (messages.AvailableLanguageRequest, riva_nmt_pb2.AvailableLanguageRequest),
    (messages.AvailableLanguageResponse, riva_nmt_pb2.AvailableLanguageResponse),
    (messages.HealthCheckRequest, health_pb2.HealthCheckRequest),
    (messages.HealthCheckResponse, health_pb2.HealthCheckResponse),
]


def on_the_wire(descriptor: Any) -> dict[str, Any]:
    """Numbers and types of a message's fields, including nested messages."""
    return {
        field.name: (
            field.number,
            field.type,
            field.is_repeated,
            on_the_wire(field.message_type) if field.message_type else None,
            [(value.name, value.number) for value in field.enum_type.values]
            if field.enum_type
            else None,
        )
        for field in descriptor.fields
    }


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=lambda kind: kind.__name__)
def test_messages_have_the_same_wire_format_as_nvidias(ours: Any, theirs: Any) -> None:
    assert on_the_wire(ours.DESCRIPTOR) == on_the_wire(theirs.DESCRIPTOR)


def test_phrases_in_both_formats() -> None:
    assert read_phrases(["a##b,c##, d ## e f ,,##x", "g"]) == {
        "a": "b",
        "c": "c",
        "d": "e f",
        "g": "g",
    }
    assert read_phrases([]) == {}


def test_marked_phrases_are_kept() -> None:
    assert take_marks(["I use <dnt>Riva 2</dnt>.", "<dnt> </dnt>x", "no </dnt> mark"]) == (
        ["I use Riva 2.", " x", "no </dnt> mark"],
        {"Riva 2": "Riva 2"},
    )
    texts = ["<dnt>a<dnt>b</dnt></dnt><dnt>c", "<dnt>d\n</dnt>", ""]
    assert take_marks(texts) == (
        ["a<dnt>b</dnt><dnt>c", "d\n", ""],
        {"a<dnt>b": "a<dnt>b", "d": "d"},
    )


def test_the_time_to_read_marks_is_proportional_to_the_text() -> None:
    short, long = (
        [count * "<dnt>", count * "</dnt>", count * "<dnt>a</dnt>"] for count in (20_000, 100_000)
    )
    assert fastest_s(lambda: take_marks(long)) < 12 * fastest_s(lambda: take_marks(short))
