"""Refusals keep their fields on every transport, and a refused text does not affect the others."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence
from typing import Any

import pytest
from dragoman_client import InvalidRequest, ServerError, Translator
from dragoman_client.core.errors import from_status
from dragoman_client.files.isolation import isolate
from dragoman_client.testing import FakeServer
from dragoman_client.transports.blocking import run
from dragoman_client.transports.own_wire import of_error
from dragoman_options.refusal import Refusal, WrongType, WrongValue
from dragoman_options.table import check
from server_fixtures import Either

MADE_UP = Refusal("text 1 is loud", "made_up", "loudness", 1)


def refuse(_text: str) -> str:
    raise InvalidRequest(*MADE_UP)


@pytest.mark.parametrize("protocol", ["grpc", "http", "gateway"])
async def test_a_made_up_refusal_keeps_its_fields(either: Either, protocol: str) -> None:
    with FakeServer(refuse) as server:
        async with either(getattr(server, f"{protocol}_url")) as client:
            for asking in (client.translate(["a", "b"]), client.parts("a")):
                with pytest.raises(InvalidRequest) as caught:
                    await asking
                assert Refusal.of(caught.value) == MADE_UP


@pytest.mark.parametrize("protocol", ["grpc", "http", "gateway"])
def test_a_made_up_refusal_of_a_batch_keeps_its_fields(protocol: str) -> None:
    with FakeServer(refuse) as server, Translator(getattr(server, f"{protocol}_url")) as translator:
        with pytest.raises(InvalidRequest) as caught:
            list(translator.translate_batches(["a", "b"]))
        assert Refusal.of(caught.value) == MADE_UP


@pytest.mark.parametrize("protocol", ["grpc", "http", "gateway"])
def test_a_refused_target_is_named(protocol: str) -> None:
    with FakeServer() as server, Translator(getattr(server, f"{protocol}_url")) as translator:
        with pytest.raises(InvalidRequest) as caught:
            translator.score(["a", "b"], ["A", ""])
        message = "target 1 is empty, but its text is not"
        assert Refusal.of(caught.value) == (message, "invalid", "target_input", 1)


@pytest.mark.parametrize(
    "error",
    [
        from_status("StatusCode.INVALID_ARGUMENT", "text 0 has 300 tokens"),
        from_status(None, "INVALID_ARGUMENT: text 0 has 300 tokens"),
        from_status("400", "text 0 has 300 tokens"),
        of_error({"code": "invalid_input", "message": "text 0 has 300 tokens"}),
    ],
)
def test_the_answers_of_an_older_server_have_no_fields(error: Exception) -> None:
    assert isinstance(error, InvalidRequest)
    assert Refusal.of(error) == ("text 0 has 300 tokens", None, None, None)


@pytest.mark.parametrize(
    "refusal",
    [
        MADE_UP,
        Refusal("no"),
        Refusal("no", None),
        Refusal('ü {"kind":"x"}', "x", None, 0),
    ],
)
def test_a_message_with_fields_is_read_back(refusal: Refusal) -> None:
    assert Refusal.parse(str(refusal)) == refusal
    assert "\n" not in str(refusal)


@pytest.mark.parametrize(
    "written",
    ['a {"kind":', 'a {"kind":"b"', 'a {"kind":"b"} c', 'a {"kind":' + "[" * 100_000, "", "a"],
)
def test_a_damaged_message_is_a_message(written: str) -> None:
    assert Refusal.parse(written) == (written, None, None, None)


@pytest.mark.parametrize("index", [-1, True, 1.0, "1", None, [1]])
def test_wrong_fields_are_left_out(index: Any) -> None:
    fields = {"kind": 1, "option": ["a"], "text_index": index}
    assert Refusal.with_fields("a", fields) == ("a", None, None, None)


def test_an_exception_keeps_its_fields_when_it_is_copied() -> None:
    error = InvalidRequest(*MADE_UP)
    for other in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert Refusal.of(other) == MADE_UP


@pytest.mark.parametrize(
    ("options", "kind", "error"),
    [
        ({"patience": 11.0}, WrongValue, ("invalid", "patience", None)),
        ({"patience": "x"}, WrongType, ("invalid", "patience", None)),
        ({"patience": 2.0, "seed": 1}, WrongValue, ("invalid", "patience", None)),
        ({"markup": ["", "{"]}, WrongValue, ("invalid", "markup", 1)),
        ({"patiense": 1.0}, WrongType, ("unknown_option", None, None)),
    ],
)
def test_a_wrong_option_is_named(
    options: dict[str, Any], kind: type[Exception], error: tuple[object, ...]
) -> None:
    with pytest.raises(kind) as caught:
        check(options)
    assert Refusal.of(caught.value)[1:] == error


class Sending:
    """Refuses some texts by name, the others together if there are too many."""

    def __init__(self, texts: str, most: int = 100) -> None:
        self.texts, self.most = texts, most
        self.sent: list[str] = []

    async def __call__(self, part: range) -> Sequence[str]:
        these = self.texts[part.start : part.stop]
        self.sent.append(these)
        if "!" in these:
            index = these.index("!")
            raise InvalidRequest(f"text {index} is bad", text_index=index)
        if len(these) > self.most:
            raise ServerError("too many")
        return these.upper()


def outcomes(results: Sequence[object]) -> str:
    assert {str(answer) for answer in results if isinstance(answer, InvalidRequest)} <= {
        "text 0 is bad"
    }
    assert {answer.text_index for answer in results if isinstance(answer, InvalidRequest)} <= {0}
    return "".join("!" if isinstance(answer, InvalidRequest) else str(answer) for answer in results)


@pytest.mark.parametrize(
    ("texts", "sent"),
    [
        ("abc", ["abc"]),
        ("", []),
        ("ab!cd", ["ab!cd", "ab", "cd"]),
        ("!a", ["!a", "a"]),
        ("!!!", ["!!!", "!!", "!"]),
        ("a!b!c", ["a!b!c", "a", "b!c", "b", "c"]),
    ],
)
def test_refused_texts_are_left_out(texts: str, sent: list[str]) -> None:
    send = Sending(texts)
    assert outcomes(run(isolate(len(texts), send))) == texts.upper()
    assert send.sent == sent


def test_an_error_of_no_text_is_raised_unless_a_text_may_be_the_cause() -> None:
    with pytest.raises(ServerError):
        run(isolate(4, Sending("ab!d", most=1)))
    blamed = []
    send = Sending("ab!d", most=1)
    results = run(isolate(4, send, lambda error, count: blamed.append((str(error), count))))
    assert (outcomes(results), blamed) == ("AB!D", [("too many", 2)])


@pytest.mark.parametrize("index", [None, 2])
def test_a_refusal_of_another_text_than_those_sent_is_raised(index: int | None) -> None:
    async def send(_part: range) -> Sequence[str]:
        raise InvalidRequest("text 2 is bad", text_index=index)

    with pytest.raises(InvalidRequest, match="text 2"):
        run(isolate(2, send))


def test_a_refusal_names_its_text_at_another_index() -> None:
    assert MADE_UP.moved(12) == ("text 12 is loud", "made_up", "loudness", 12)
    given = Refusal("the prefix of text 3 has 3 tokens", text_index=3)
    assert given.moved(0).message == "the prefix of text 0 has 3 tokens"
    assert Refusal("target 3 is empty", text_index=3).moved(0).message == "target 0 is empty"
