"""The engine's process, in this process: models connect to its socket as Triton's do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dragoman_options.client_frames import (
    pack_cancel,
    pack_hello,
    pack_request,
    request_of,
    unpack_figures,
    unpack_refused,
)
from dragoman_options.frames import (
    PROTOCOL,
    Answer,
    Damaged,
    ErrorCode,
    FrameSplitter,
    Hello,
    Kind,
    Tensor,
)
from dragoman_options.table import INFO, OPTIONS, SCORE, STREAM, TRANSLATE
from dragoman_serving.service.bundles import Bundles
from dragoman_serving.service.connection import Connection
from dragoman_serving.service.models_to_serve import ModelsToServe

from dragoman.kernel.manifest import Manifest
from tests.conftest import REPOSITORY
from tests.unit.serving.service.triton_side import (
    SHIPPED,
    Connect,
    Triton,
    failures,
    hello,
    info_of,
    pairs,
    ready,
    request,
    running,
    served,
    texts_of,
)

TEXT = "I would like a cup of coffee, but my brother does not want to go there."
MUCH = [TEXT] * 5000
"""More than is translated before anything else is done."""


@pytest.fixture(scope="module")
def connect() -> Iterator[Connect]:
    with served() as connecting:
        yield connecting


@pytest.fixture(scope="module")
def translate(connect: Connect) -> Triton:
    """The model `translate`, ready."""
    return ready(connect)


@pytest.fixture
def stream(connect: Connect) -> Triton:
    """The model `translate_stream`, ready."""
    return ready(connect, STREAM)


def test_many_requests_are_all_answered(translate: Triton) -> None:
    texts = [f"I have {number} apples." for number in range(50)]
    for number, text in enumerate(texts):
        translate.send(request(100 + number, [text]))
    answers = [translate.answer() for _ in texts]
    translations = [
        text for answer in sorted(answers, key=lambda a: a.number) for text in texts_of(answer)
    ]
    translate.send(request(7, texts))
    assert translations == texts_of(translate.answer())
    assert len(set(translations)) > 40


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (request(7, ["a"], beam_width=99), "beam_width is 99"),
        (request(7, ["a"], colour=1), "unknown option 'colour'"),
        (request(7, []), "give at least one text"),
        (
            pack_request(request_of(7, 0, {}, (), (Tensor("text_input", 13, (1,), b"\1"),))),
            "is damaged",
        ),
    ],
)
def test_only_a_bad_request_fails(translate: Triton, frame: bytes, message: str) -> None:
    translate.send(frame)
    answer = translate.failure()
    assert (answer.number, answer.code) == (7, ErrorCode.INVALID_ARG)
    assert message in answer.message
    translate.send(request(8, ["I'm hungry."]))
    right = translate.answer()
    assert (right.number, right.last, texts_of(right)) == (8, True, ["Ich habe Hunger."])


def test_a_cancelled_request_is_ended(translate: Triton) -> None:
    translate.send(request(7, MUCH, beam_width=8))
    translate.send(pack_cancel(7))
    translate.send(pack_cancel(99))  # an unknown request
    answer = translate.failure()
    assert (answer.number, answer.code) == (7, ErrorCode.CANCELLED)


def test_a_stream_grows_to_the_whole_translation(translate: Triton, stream: Triton) -> None:
    stream.send(request(3, [TEXT], beam_width=1))
    answers = [stream.answer()]
    while not answers[-1].last:
        answers.append(stream.answer())
    assert {answer.number for answer in answers} == {3}
    translate.send(request(7, [TEXT], beam_width=1))
    whole = texts_of(translate.answer())[0]
    texts = [texts_of(answer)[0] for answer in answers]
    assert texts[-1] == whole
    assert all(whole.startswith(text) for text in texts)


LATE = re.compile("the deadline pass|and its time is")
"""Refused on arrival if the engine's speed is known already, and something waits."""


def test_each_stream_fails_separately(stream: Triton) -> None:
    stream.send(request(1, ["a", "b"]))
    stream.send(request(2, [TEXT], timeout=1))
    long = request(3, [" ".join(MUCH[:50])], split_sentences=True, beam_width=8)
    stream.send(long + pack_cancel(3))
    failed = failures(stream, 3)
    two = "INVALID_ARGUMENT: text_input has 2 texts: give one"
    assert failed[1] == (ErrorCode.INVALID_ARG, two)
    assert failed[2][0] is failed[3][0] is ErrorCode.CANCELLED
    assert LATE.search(failed[2][1])


@pytest.mark.usefixtures("translate")
def test_given_translations_are_scored(connect: Connect) -> None:
    model = ready(connect, SCORE)
    model.send(pairs(5, ["Good morning.", TEXT], ["Guten Morgen.", "Nein."]))
    answer = model.answer()
    assert isinstance(answer, Answer), answer
    tensors = {tensor.name: tensor for tensor in answer.outputs}
    assert list(tensors) == ["scores", "confidences"]
    assert {tensor.shape for tensor in tensors.values()} == {(1, 2)}
    assert tensors["scores"].values[1] < tensors["scores"].values[0] < 0
    model.send(pairs(6, ["Good morning."], ["Guten Morgen.", "Nein."]))
    model.send(pairs(7, ["Good morning."], ["Guten Morgen."], timeout=1))
    model.send(pairs(8, [TEXT] * 5000, [TEXT] * 5000))
    model.send(pack_cancel(8))
    failed = failures(model, 3)
    assert failed[6][0] is ErrorCode.INVALID_ARG
    assert "text_input has 1 texts and target_input 2" in failed[6][1]
    late = "CANCELLED: the deadline passed before it was scored"
    assert failed[7] == (ErrorCode.CANCELLED, late)
    assert failed[8][0] is ErrorCode.CANCELLED
    model.send(pairs(9, ["Good morning."], ["Guten Morgen."]))
    assert model.answer().number == 9


@pytest.mark.usefixtures("translate")
def test_info_describes_the_served_models(connect: Connect) -> None:
    info = info_of(connect, timeout=1)
    manifest = Manifest.load(Path(SHIPPED.bundles[0]))
    assert info["languages"] == list(manifest.languages)
    assert [bundle["identity"] for bundle in info["bundles"]] == [manifest.identity]
    assert [option["name"] for option in info["options"]] == list(OPTIONS)
    (top_k,) = (option for option in info["options"] if option["name"] == "top_k")
    assert top_k["range"] == {"least": 1, "most": manifest.dimensions.vocab_size, "above": False}
    model = ready(connect, INFO)
    model.send(request(6, ["a"]))
    assert model.failure().message == "info takes no text_input"


def test_disconnecting_cancels_everything(translate: Triton, stream: Triton) -> None:
    stream.send(request(1, [" ".join(MUCH[:100])], split_sentences=True, beam_width=8))
    stream.close()
    cancelled = 0.0
    while not cancelled:
        kind, body = translate.receive()
        assert kind is Kind.FIGURES
        cancelled = figure(body, "dragoman_sentences_cancelled_total")


def figure(body: bytes, name: str) -> float:
    (value,) = [figure.value for figure in unpack_figures(body) if figure.name == name]
    return value


def test_metrics_follow_the_work(translate: Triton) -> None:
    before = 1.0
    while before:  # until metrics of earlier requests are sent
        kind, body = translate.receive()
        before = figure(body, "dragoman_sentences_total") if kind is Kind.FIGURES else 1.0
    translate.send(request(7, ["Good morning.", "Good evening."]))
    grown = 0.0
    while grown < 2:
        kind, body = translate.receive()
        if kind is Kind.FIGURES:
            grown += figure(body, "dragoman_sentences_total")
    assert grown == 2
    assert figure(body, "dragoman_rows_limit") > 0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"colour": "red"}, "unknown parameter 'colour'"),
        ({"deadline_s": "0"}, "deadline_s is 0"),
    ],
)
def test_settings_that_cannot_be_used_are_named(parameters: dict[str, str], message: str) -> None:
    with served(parameters=parameters) as connecting:
        assert message in str(connecting().introduce(hello()))


def test_a_bundle_that_cannot_be_loaded_is_named() -> None:
    with served(ModelsToServe((str(REPOSITORY / "nowhere"),))) as connecting:
        model = connecting()
        assert "nowhere" in str(model.introduce(hello()))
        with pytest.raises(EOFError):
            model.receive()


def test_an_unknown_model_is_refused(connect: Connect) -> None:
    message = "the engine has no model 'summarize': it has translate, translate_stream, score, info"
    assert connect().introduce(hello("summarize")) == message


def test_a_relay_of_another_release_is_refused(connect: Connect) -> None:
    model = connect()
    model.send(pack_hello(hello(), protocol=PROTOCOL - 1))
    kind, body = model.receive()
    assert kind is Kind.REFUSED
    assert unpack_refused(body) == (
        f"the client has version {PROTOCOL - 1} of the protocol and the engine {PROTOCOL}: "
        "reinstall Dragoman, so that both are from the same release"
    )


HTTP = b"GET / HTTP/1.1\r\n\r\n"


@pytest.mark.parametrize("garbage", [HTTP, b"\5\0\0\0\1\xff\0\0\0"])
def test_garbage_is_refused(connect: Connect, garbage: bytes) -> None:
    model = connect()
    model.send(garbage)
    kind, _ = model.receive()
    assert kind is Kind.REFUSED
    with pytest.raises(EOFError):
        model.receive()


GARBAGE = (HTTP, b"\5\0\0\0\2\xff\0\0\0", b"\1\0\0\0\3")


@pytest.mark.parametrize("garbage", GARBAGE)
def test_a_client_that_sends_garbage_is_cut_off_alone(connect: Connect, garbage: bytes) -> None:
    client, other = connect(), connect()
    assert client.introduce(Hello(SCORE)) is None
    assert other.introduce(Hello(TRANSLATE)) is None
    client.send(garbage)
    kind, _ = client.receive()
    assert kind is Kind.REFUSED
    with pytest.raises(EOFError):
        client.receive()
    other.send(request(1, ["I'm hungry."]))
    assert texts_of(other.answer()) == ["Ich habe Hunger."]


@pytest.mark.parametrize("garbage", GARBAGE)
def test_an_unreadable_model_closes_the_connection(garbage: bytes) -> None:
    failures: list[Exception] = []
    with served(on_failure=failures.append) as connecting:
        model = ready(connecting, STREAM)
        model.send(garbage)
        with pytest.raises(EOFError):
            model.receive()
    assert [type(failure) for failure in failures] == [Damaged]


@pytest.mark.usefixtures("translate")
def test_requests_before_the_hello_are_ignored(connect: Connect) -> None:
    model = connect()
    model.send(request(7, ["a"]) + pack_cancel(7))
    assert model.introduce(hello(STREAM)) is None


def test_a_stopped_server_answers_the_requests_in_flight() -> None:
    with running() as (server, connecting):
        model = ready(connecting)
        model.send(request(1, MUCH[:20], beam_width=4))
        while not server.busy:
            pass
        server.stop()
        assert len(texts_of(model.answer())) == 20
        with pytest.raises(EOFError):
            list(iter(model.receive, None))  # it may report its counters first


def test_loaded_models_outlive_a_triton_that_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []

    class Noted(Bundles):
        def __init__(self, *given: Any) -> None:
            opened.append(self)
            super().__init__(*given)

    monkeypatch.setattr("dragoman_serving.service.server.Bundles", Noted)
    with served() as connecting:
        for _ in range(3):
            model = ready(connecting)
            model.send(request(1, MUCH, beam_width=8))  # cancelled when its Triton ends
            model.send(request(2, ["I'm hungry."]))
            model.close()
        model = ready(connecting)
        model.send(request(3, ["I'm hungry."]))
        assert texts_of(model.answer()) == ["Ich habe Hunger."]
    assert len(opened) == 1


def test_a_server_is_busy_until_answers_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    really_send, states = Connection.send, []

    def send(connection: Connection, frame: bytes) -> None:
        if [kind for kind, _ in FrameSplitter().feed(frame)] == [Kind.ANSWER]:
            states.append(server.busy)
        really_send(connection, frame)

    monkeypatch.setattr(Connection, "send", send)
    with running() as (server, connecting):
        model = ready(connecting)
        assert not server.busy
        model.send(request(7, MUCH, beam_width=8))
        while not server.busy:
            pass
        model.send(pack_cancel(7))
        model.answer()
        while server.busy:
            pass
        states.clear()
        model.send(request(8, ["I'm hungry."]))
        model.answer()
        assert states == [True]
