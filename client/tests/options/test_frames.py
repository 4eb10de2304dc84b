from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
from dragoman_options.client_frames import (
    pack_cancel,
    pack_hello,
    pack_options,
    pack_request,
    unpack_answer,
    unpack_figures,
    unpack_refused,
)
from dragoman_options.frames import (
    MOST_BYTES,
    Answer,
    Damaged,
    DataType,
    ErrorCode,
    Failure,
    Figure,
    FrameSplitter,
    Hello,
    Kind,
    OtherProtocol,
    Request,
    RequestOptions,
    RequestParser,
    Tensor,
    join_paths,
    pack_figures,
    pack_ready,
    pack_refused,
    split_paths,
    unpack_cancel,
)
from dragoman_options.refusal import WrongValue
from hypothesis import given
from hypothesis import strategies as st

HEAD_BYTES = 5
Unpack = Callable[[bytes], Any]

U64 = st.integers(0, 2**64 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
PARAMETERS = st.dictionaries(
    st.text(), st.text() | st.booleans() | I64 | st.floats(allow_nan=False), max_size=4
)
TENSORS = st.lists(
    st.builds(
        Tensor,
        st.text(),
        st.integers(0, 2**32 - 1),
        st.lists(I64, max_size=4).map(tuple),
        st.binary(max_size=40),
    ),
    max_size=3,
).map(tuple)
OPTIONS = st.builds(RequestOptions, PARAMETERS, st.lists(st.text(), max_size=3).map(tuple), TENSORS)
REQUESTS = st.builds(Request, U64, U64, OPTIONS.map(pack_options), TENSORS, st.text())
ANSWERS = st.builds(Answer, U64, TENSORS, st.booleans())
FAILURES = st.builds(Failure, U64, st.sampled_from(ErrorCode), st.text())
FIGURES = st.lists(
    st.builds(
        Figure,
        st.booleans(),
        st.text(),
        st.text(),
        st.floats(allow_nan=False),
        st.lists(st.tuples(st.text(), st.text()), max_size=3).map(tuple),
    ),
    max_size=3,
)
HELLOS = st.builds(Hello, st.text(), st.booleans())
FRAMES = st.one_of(
    HELLOS.map(lambda hello: (pack_hello(hello), Hello.unpack)),
    REQUESTS.map(lambda request: (pack_request(request), RequestParser().parse)),
    U64.map(lambda number: (pack_cancel(number), unpack_cancel)),
)
"""The requests as the engine's process reads them."""
BODIES = st.one_of(
    FRAMES.map(lambda made: (made[0][HEAD_BYTES:], made[1])),
    OPTIONS.map(lambda options: (pack_options(options), RequestOptions.unpack)),
)
"""The same without heads, and a request's options."""


def body_of(frame: bytes, kind: Kind) -> bytes:
    """The content of the only frame."""
    ((own_kind, body),) = FrameSplitter().feed(frame)
    assert own_kind is kind
    return body


@given(HELLOS)
def test_hellos_survive_packing(hello: Hello) -> None:
    assert Hello.unpack(body_of(pack_hello(hello), Kind.HELLO)) == hello


@given(REQUESTS)
def test_requests_survive_packing(request: Request) -> None:
    assert RequestParser().parse(body_of(pack_request(request), Kind.REQUEST)) == request


@given(REQUESTS, st.lists(st.tuples(U64, st.binary()), min_size=1), REQUESTS)
def test_a_parser_reads_requests_like_and_unlike_the_one_before(
    request: Request, alike: list[tuple[int, bytes]], other: Request
) -> None:
    request.texts = request.texts[:1] or (Tensor("text_input", DataType.BYTES, (1,), b""),)
    (text,) = request.texts
    requests = [request] + [
        dataclasses.replace(
            request, number=number, texts=(text._replace(data=data),), id=f"{number}"
        )
        for number, data in alike
    ]
    requests = [*requests, other, *requests]
    parser = RequestParser()
    for each in requests:
        assert parser.parse(body_of(pack_request(each), Kind.REQUEST)) == each


@given(OPTIONS)
def test_options_survive_packing(options: RequestOptions) -> None:
    unpacked = RequestOptions.unpack(pack_options(options))
    assert unpacked == options
    # True equals 1, and 1 equals 1.0.
    assert list(map(type, unpacked.parameters.values())) == [
        type(value) for value in options.parameters.values()
    ]


@given(ANSWERS | FAILURES)
def test_answers_survive_packing(answer: Answer | Failure) -> None:
    assert unpack_answer(body_of(answer.pack(), Kind.ANSWER)) == answer


def test_an_answer_too_large_for_a_frame_is_an_error() -> None:
    def answer(size: int) -> Answer:
        return Answer(1, (Tensor("attention", DataType.BYTES, (1,), bytes(size)),))

    around = len(answer(0).pack()) - len(MOST_BYTES.to_bytes(4, "little"))
    largest = answer(MOST_BYTES - around)
    assert unpack_answer(body_of(largest.pack(), Kind.ANSWER)) == largest
    with pytest.raises(WrongValue, match="larger than 64 MiB: send fewer texts"):
        answer(MOST_BYTES - around + 1).pack()


@given(FIGURES)
def test_metrics_survive_packing(figures: list[Figure]) -> None:
    assert unpack_figures(body_of(pack_figures(figures), Kind.FIGURES)) == figures


PATHS = st.text("ab/,").map(lambda name: f"/{name}s").filter(lambda path: ",/" not in path)


@given(st.lists(PATHS, min_size=1))
def test_paths_survive_joining(paths: list[str]) -> None:
    assert split_paths(join_paths(paths)) == paths


def test_short_frames_survive_packing() -> None:
    assert unpack_cancel(body_of(pack_cancel(2**64 - 1), Kind.CANCEL)) == 2**64 - 1
    assert unpack_refused(body_of(pack_refused("no bündle"), Kind.REFUSED)) == "no bündle"
    assert unpack_refused(body_of(pack_ready("{}"), Kind.READY)) == "{}"  # both contain a text


@pytest.mark.parametrize(
    ("datatype", "values"),
    [
        (DataType.BYTES, [b"", b"a\0b", "Straße".encode()]),
        (DataType.INT32, [-(2**31), 0, 2**31 - 1]),
        (DataType.FP32, [-0.5, 0.0, math.inf]),
        (DataType.BOOL, [True, False, True]),
    ],
)
def test_tensors_keep_their_elements(datatype: DataType, values: list[Any]) -> None:
    assert Tensor.of("x", datatype, (3,), values).values == values
    assert Tensor.of("x", datatype, (0,), []).values == []


@pytest.mark.parametrize(
    "tensor",
    [
        Tensor("x", DataType.BYTES, (1,), b"\5\0\0\0four"),
        Tensor("x", DataType.BYTES, (1,), b"\0\0\0"),
        Tensor("x", DataType.INT32, (1,), b"123"),
        Tensor("x", DataType.FP32, (1,), b"12345"),
        Tensor("x", 12, (1,), b"12345678"),
    ],
)
def test_damaged_tensors_have_no_elements(tensor: Tensor) -> None:
    with pytest.raises(WrongValue, match="input x is damaged"):
        _ = tensor.values


@given(BODIES)
def test_a_truncated_frame_is_damaged(made: tuple[bytes, Unpack]) -> None:
    body, unpack = made
    unpack(body)
    for length in range(len(body)):
        with pytest.raises(Damaged):
            unpack(body[:length])


@given(BODIES, st.integers(0), st.integers(1, 255))
def test_a_wrong_byte_breaks_nothing_else(
    made: tuple[bytes, Unpack], where: int, change: int
) -> None:
    packed, unpack = made
    body = bytearray(packed)
    body[where % len(body)] ^= change
    with contextlib.suppress(Damaged, OtherProtocol):  # nothing else may be raised
        unpack(bytes(body))


@given(st.lists(FRAMES.map(lambda made: made[0]), max_size=5), st.data())
def test_frames_are_found_in_chunks_of_any_size(frames: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(frames)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=20).map(sorted))
    splitter = FrameSplitter()
    split = [
        frame
        for begin, end in itertools.pairwise([0, *cuts, len(stream)])
        for frame in splitter.feed(stream[begin:end])
    ]
    assert split == [(frame[4], frame[HEAD_BYTES:]) for frame in frames]


@pytest.mark.parametrize(
    "received",
    [
        b"\1\0\0\0\0",
        b"\1\0\0\0\x63",
        b"\0\0\0\0\1",
        (MOST_BYTES + 1).to_bytes(4, "little") + b"\1",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_invalid_frames_are_damaged(received: bytes) -> None:
    with pytest.raises(Damaged):
        list(FrameSplitter().feed(received))


def test_frames_before_the_damage_are_returned() -> None:
    frames = FrameSplitter().feed(pack_ready("{}") + pack_cancel(7) + b"\1\0\0\0\0")
    assert next(frames)[0] is Kind.READY
    assert unpack_cancel(next(frames)[1]) == 7
    with pytest.raises(Damaged):
        next(frames)
