"""The compiled relay between an imitated Triton and an imitated engine."""

from __future__ import annotations

import contextlib
import select
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from dragoman_options.frames import (
    MOST_BYTES,
    Answer,
    DataType,
    ErrorCode,
    Failure,
    Figure,
    Hello,
    Kind,
    RequestOptions,
    RequestParser,
    Tensor,
    join_paths,
    pack_figures,
    pack_ready,
    pack_refused,
    unpack_cancel,
)
from dragoman_options.frames import Request as Frame
from dragoman_serving.service.connection import Connection
from dragoman_serving.service.engine_socket import VARIABLE

from tests.layouts import compiled_layouts, layout_of
from tests.unit.serving.relay.imitated_triton import (
    FINAL,
    HEADERS,
    INCLUDE,
    SOURCES,
    STRUCTURES,
    TEXTS,
    Request,
    Triton,
    compile_library,
)

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")

WAIT_S = 60
GONE = (ErrorCode.UNAVAILABLE, "UNAVAILABLE: the engine's process has gone")
COUNTER, GAUGE = 0, 1
TOO_LONG = (0xFFFFFFF0).to_bytes(4, "little") + bytes((Kind.ANSWER,)) + bytes(1 << 20)
"""The start of a frame of 4 GiB."""
MANY = 10_000
"""Number of requests, far more than are ever in flight."""
FIGURES = [Figure(False, "sentences_total", "Sentences", 2.0), Figure(True, "rows", "Rows", 7.0)]
INITIALIZES = """
#include <stdio.h>
#include <sys/resource.h>
#include "triton.h"
TRITONSERVER_Error *TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model *);
TRITONSERVER_Error *TRITONBACKEND_ModelName(TRITONBACKEND_Model *model, const char **name)
{
    *name = "translate";
    return NULL;
}
TRITONSERVER_Error *TRITONSERVER_ErrorNew(TRITONSERVER_Error_Code code, const char *message)
{
    puts(message);
    return (TRITONSERVER_Error *)1;
}
char *__wrap_strdup(const char *text)
{
    return (void)text, NULL;
}
int main(void)
{
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, 0});
    return TRITONBACKEND_ModelInitialize(NULL) == NULL;
}
"""


class Engine:
    """The engine's side of a model's connection."""

    def __init__(self, connected: socket.socket) -> None:
        connected.settimeout(WAIT_S)
        self.socket = connected
        self.connection = Connection(connected)
        self._frames = self.connection.frames()

    def receive(self, kind: Kind) -> bytes:
        received, body = next(self._frames)
        assert received is kind
        return body

    def take(self) -> Frame:
        return RequestParser().parse(self.receive(Kind.REQUEST))

    def answer(self, request: Frame) -> None:
        self.send(Answer(request.number, ()).pack())

    def send(self, *frames: bytes) -> None:
        for frame in frames:
            self.connection.send(frame)

    def has_no_more(self) -> bool:
        return next(self._frames, None) is None

    def take_and_answer(self, request: Request) -> None:
        """Answer a request, and wait until the relay has its answer."""
        self.answer(self.take())
        request.response()

    def go(self) -> None:
        self.connection.hang_up()
        self.connection.close()


class Starting:
    """A model that is being initialized, and the engine that it has connected to."""

    def __init__(self, triton: Triton, listening: socket.socket, pool: ThreadPoolExecutor) -> None:
        self.initialized: Future[tuple[int, str] | None] = pool.submit(triton.initialize)
        self.engine = Engine(listening.accept()[0])

    def is_ready(self) -> bool:
        return self.initialized.result(WAIT_S) is None


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("relay") / "relay.so"
    compile_library(path)
    return path


@pytest.fixture
def triton(library: Path, tmp_path: Path) -> Triton:
    own = tmp_path / library.name  # loaded again, with its own variables
    shutil.copy(library, own)
    return Triton(own)


@pytest.fixture
def starting(triton: Triton, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Starting]:
    path = tmp_path / "engine.sock"
    monkeypatch.setenv(VARIABLE, str(path))
    with socket.socket(socket.AF_UNIX) as listening, ThreadPoolExecutor(1) as pool:
        listening.bind(str(path))
        listening.listen()
        starting = Starting(triton, listening, pool)
        yield starting
        starting.engine.go()


@pytest.fixture
def engine(triton: Triton, starting: Starting) -> Iterator[Engine]:
    """The engine of a ready model."""
    starting.engine.receive(Kind.HELLO)
    starting.engine.send(pack_ready("{}"))
    assert starting.is_ready()
    yield starting.engine
    if triton.model.state:
        triton.finalize()


@dataclass
class Two:
    """Two engine processes, as sockets, and a model that connects to both."""

    triton: Triton
    listening: list[socket.socket]
    initialized: Future[tuple[int, str] | None]

    def connected(self, index: int) -> Engine:
        """The next connection to an engine; its hello is read."""
        engine = Engine(self.listening[index].accept()[0])
        assert Hello.unpack(engine.receive(Kind.HELLO)) == Hello("translate", is_relay=True)
        return engine

    def ready(self) -> list[Engine]:
        """Both engines, which the relay has seen to be ready."""
        engines = [self.connected(index) for index in range(2)]
        for engine in engines:
            engine.send(pack_ready("{}"))
        assert self.initialized.result(WAIT_S) is None
        for engine in engines:
            self.until_chosen(engine, engines)
        return engines

    def until_chosen(self, chosen: Engine, engines: Sequence[Engine]) -> None:
        """Send requests, which are answered, until one reaches an engine.

        Those that are sent while no engine is ready fail.
        """
        while True:
            request = self.triton.ask()
            readable: list[socket.socket] = []
            while not readable and request.responses.empty():
                readable, _, _ = select.select([engine.socket for engine in engines], [], [], 0.01)
            for engine in engines:
                if engine.socket in readable:
                    engine.answer(engine.take())
            request.response()
            if chosen.socket in readable:
                return


@pytest.fixture
def two(triton: Triton, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Two]:
    folders = [tmp_path / "a,b", tmp_path / "c"]
    with contextlib.ExitStack() as closing:
        pool = closing.enter_context(ThreadPoolExecutor(1))
        listening = []
        for folder in folders:
            folder.mkdir()
            listening.append(closing.enter_context(socket.socket(socket.AF_UNIX)))
            listening[-1].settimeout(WAIT_S)
            listening[-1].bind(str(folder / "s"))
            listening[-1].listen()
        monkeypatch.setenv(VARIABLE, join_paths([folder / "s" for folder in folders]))
        yield Two(triton, listening, pool.submit(triton.initialize))
        if triton.model.state:
            triton.finalize()


def test_the_engine_gets_the_name_of_the_model(triton: Triton, starting: Starting) -> None:
    hello = Hello.unpack(starting.engine.receive(Kind.HELLO))
    assert hello == Hello("translate", is_relay=True)
    starting.engine.send(pack_ready("{}"))
    assert starting.is_ready()
    triton.finalize()
    assert starting.engine.has_no_more()


def test_a_refusal_is_forwarded(starting: Starting) -> None:
    starting.engine.send(pack_refused("no bündle"))
    assert starting.initialized.result(WAIT_S) == (ErrorCode.INVALID_ARG, "no bündle")


def test_an_engine_that_disconnects_ends_the_wait(starting: Starting) -> None:
    starting.engine.go()
    assert starting.initialized.result(WAIT_S) == GONE


def test_a_missing_engine_is_an_error(
    triton: Triton, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "none.sock"
    monkeypatch.setenv(VARIABLE, str(path))
    no_file = (ErrorCode.UNAVAILABLE, f"{path}: No such file or directory")
    assert triton.initialize() == no_file
    for value in (None, "x" * 108):  # too long for a socket's address
        if value is None:
            monkeypatch.delenv(VARIABLE)
        else:
            monkeypatch.setenv(VARIABLE, value)
        code, message = triton.initialize() or (None, "")
        assert code == ErrorCode.UNAVAILABLE
        assert message.startswith("DRAGOMAN_ENGINE_SOCKETS does not name sockets of an engine")


def test_requests_are_sent_completely(triton: Triton, engine: Engine) -> None:
    parameters = {"a": 1, "b": 1.5, "c": "ü", "d": False}
    of_generate = {"id": "r-1", **parameters}
    inputs = (
        TEXTS,
        Tensor.of("beam_width", DataType.INT32, (1, 1), [4]),
        Tensor.of("length_penalty", DataType.FP32, (1, 1), [0.5]),
        Tensor.of("split_sentences", DataType.BOOL, (1, 1), [True]),
    )
    outputs = ("text_output", "output_tokens")
    context = '{"traceparent": "00-1-2-01"}'
    triton.execute(Request(inputs, outputs, 5_000_000, of_generate, context.encode(), b"r-1"))
    taken = engine.take()
    assert (taken.timeout_us, taken.texts, taken.trace) == (5_000_000, (TEXTS,), context)
    assert taken.id == "r-1"
    options = RequestOptions.unpack(taken.options)
    assert options == RequestOptions(parameters, outputs, inputs[1:])
    assert list(map(type, options.parameters.values())) == [int, float, str, bool]


def test_each_request_gets_its_own_answers(triton: Triton, engine: Engine) -> None:
    first, second = Request(), Request()
    triton.execute(first, second)
    first_number, second_number = engine.take().number, engine.take().number
    outputs = (
        Tensor.of("text_output", DataType.BYTES, (1, 2), ["Ä".encode(), b"b\0"]),
        Tensor.of("output_tokens", DataType.INT32, (1, 2), [1, 2]),
    )
    engine.send(
        Answer(99, outputs).pack(),  # of an unknown request
        Answer(second_number, outputs[:1], last=False).pack(),
        Answer(first_number, outputs).pack(),
        Failure(second_number, ErrorCode.INVALID_ARG, "too grün", '{"kind":"made_up"}').pack(),
    )
    response = first.response()
    assert (response.flags, response.error, response.outputs) == (FINAL, None, outputs)
    response = second.response()
    assert (response.flags, response.error, response.outputs) == (0, None, outputs[:1])
    assert second.failure() == (ErrorCode.INVALID_ARG, 'too grün {"kind":"made_up"}')
    third = triton.ask()  # which reuses the slot of the second one
    third_number = engine.take().number
    engine.send(
        Failure(second_number, ErrorCode.INTERNAL, "late").pack(),
        Answer(third_number, outputs).pack(),
    )
    assert third.response().outputs == outputs
    assert second.responses.empty()
    assert second.structure.released == first.structure.released == 1


def test_requests_after_the_end_of_the_engine_hold_no_memory(
    triton: Triton, engine: Engine
) -> None:
    first = triton.ask()
    engine.go()
    assert first.failure() == GONE
    triton.take_largest_array()
    for _ in range(MANY):
        later = triton.ask()
        assert later.failure() == GONE
    assert triton.take_largest_array() < MANY  # each leaked slot takes more than a byte


def test_cancelled_requests_are_reported_to_the_engine(triton: Triton, engine: Engine) -> None:
    requests = [Request() for _ in range(3)]
    triton.execute(*requests)
    numbers = [engine.take().number for _ in requests]
    requests[1].structure.cancelled = True
    assert unpack_cancel(engine.receive(Kind.CANCEL)) == numbers[1]
    requests[2].structure.cancelled = True  # the first one is not reported again
    assert unpack_cancel(engine.receive(Kind.CANCEL)) == numbers[2]
    engine.send(Failure(numbers[1], ErrorCode.CANCELLED, "cancelled").pack())
    assert requests[1].failure() == (ErrorCode.CANCELLED, "cancelled")


@pytest.mark.usefixtures("engine")
def test_a_deadline_holds_when_the_engine_does_not_answer(triton: Triton) -> None:
    requests = [
        Request(timeout_us=1),
        Request(parameters={"timeout": 1}),
        Request(),
    ]
    triton.execute(*requests)
    for request in requests[:2]:
        code, message = request.failure()
        assert code == ErrorCode.CANCELLED
        assert message == "CANCELLED: the deadline passed, and the engine did not answer"
    assert requests[2].responses.empty()


def test_a_part_that_cannot_be_sent_ends_its_request(triton: Triton, engine: Engine) -> None:
    request = triton.ask()
    number = engine.take().number
    part = Tensor("text_output", DataType.BYTES, (1,) * 9, b"")  # more dimensions than allowed
    engine.send(Answer(number, (part,), last=False).pack(), Answer(number, ()).pack())
    assert request.failure() == (ErrorCode.INTERNAL, "the engine's answer is damaged")
    following = triton.ask()
    engine.send(Answer(engine.take().number, ()).pack())
    following.response()
    assert request.responses.empty()


@pytest.mark.parametrize("is_ready", [False, True])
def test_a_frame_that_is_too_long_ends_the_connection(
    triton: Triton, starting: Starting, is_ready: bool
) -> None:
    engine, request = starting.engine, Request()
    engine.receive(Kind.HELLO)
    if is_ready:
        engine.send(pack_ready("{}"))
        assert starting.is_ready()
        triton.execute(request)
        engine.take()
    engine.send(TOO_LONG)
    if is_ready:
        assert request.failure() == GONE
    else:
        assert starting.initialized.result(WAIT_S) == GONE
    assert engine.has_no_more()
    assert triton.take_largest_array() < MOST_BYTES  # it is not read
    if is_ready:
        triton.finalize()


def test_the_longest_frame_is_read(triton: Triton, engine: Engine) -> None:
    request = triton.ask()
    number = engine.take().number
    around = len(Answer(number, (Tensor("text_output", DataType.BYTES, (1,), b""),)).pack()) - 4
    output = Tensor("text_output", DataType.BYTES, (1,), bytes(MOST_BYTES - around))
    engine.send(Answer(number, (output,)).pack())
    assert request.response().outputs == (output,)


def test_only_an_unreadable_request_fails(triton: Triton, engine: Engine) -> None:
    large = Tensor("text_input", DataType.BYTES, (1,), bytes((32 << 20) + 1))
    half = Tensor("text_input", DataType.BYTES, (1,), bytes(32 << 20))
    unreadable = {
        Request(parameters={"a": None}): "a parameter of an unknown type",
        Request([large]): "an input is larger than 32 MiB",
        Request([half, half]): "the request is larger than 64 MiB",
    }
    readable = Request()
    triton.execute(*unreadable, readable)
    for request, message in unreadable.items():
        assert request.failure() == (ErrorCode.INVALID_ARG, message)
    assert engine.take().texts == (TEXTS,)


def test_metrics_are_published(triton: Triton, starting: Starting) -> None:
    starting.engine.send(pack_figures(FIGURES), pack_ready("{}"))  # before the model is ready, too
    assert starting.is_ready()
    assert triton.metrics == [
        (COUNTER, "sentences_total", 'model="translate"', 2.0),
        (GAUGE, "rows", 'model="translate"', 7.0),
    ]
    starting.engine.receive(Kind.HELLO)
    triton.metrics.clear()
    request = triton.ask()
    grown = [Figure(False, "sentences_total", "Sentences", 0.0), FIGURES[1]]
    starting.engine.send(pack_figures(FIGURES), pack_figures(grown))
    starting.engine.send(Failure(starting.engine.take().number, ErrorCode.INTERNAL, "").pack())
    request.response()  # by then the metrics before it are written
    assert [(name, value) for _, name, _, value in triton.metrics] == [
        ("sentences_total", 2.0),
        ("rows", 7.0),
        ("rows", 7.0),
    ]
    triton.finalize()


def test_metrics_of_one_name_share_a_family(triton: Triton, starting: Starting) -> None:
    """For example, the buckets of a histogram differ only in a label."""

    def bucket(name: str, bound: str, value: float) -> Figure:
        return Figure(False, name, "Times", value, (("le", bound),))

    figures = [bucket(name, bound, 1.0) for name in ("a", "b") for bound in ("0.1", "1", "+Inf")]
    more = [bucket("c", "1", 1.0), Figure(True, "many", "", 5.0, ((("x", "y"),) * 9))]
    starting.engine.send(pack_figures([*figures, *more, *FIGURES]), pack_ready("{}"))
    assert starting.is_ready()
    assert triton.metrics == [
        *(
            (COUNTER, figure.name, f'model="translate",le="{figure.labels[0][1]}"', 1.0)
            for figure in (*figures, more[0])
        ),
        (GAUGE, "many", ",".join(['model="translate"', *['x="y"'] * 4]), 5.0),
        (COUNTER, "sentences_total", 'model="translate"', 2.0),
        (GAUGE, "rows", 'model="translate"', 7.0),
    ]
    assert triton.families == 6
    triton.finalize()
    assert triton.families == 0


def test_answers_arrive_without_a_metrics_port(triton: Triton, engine: Engine) -> None:
    triton.close_metrics_port()
    request = triton.ask()
    engine.send(pack_figures(FIGURES), pack_figures(FIGURES))
    engine.send(Failure(engine.take().number, ErrorCode.INVALID_ARG, "no").pack())
    assert request.failure() == (ErrorCode.INVALID_ARG, "no")
    assert triton.metrics == []


def test_a_request_goes_to_the_engine_with_the_least_work(two: Two) -> None:
    few, many = two.ready()
    sizes = [1000, 10, 10, 10]
    two.until_chosen(few, [few, many])  # then the turn is that of the other
    requests = [
        Request([Tensor.of("text_input", DataType.BYTES, (1,), [b"x" * size])]) for size in sizes
    ]
    for request in requests:
        two.triton.execute(request)
    large, small = many.take(), [few.take() for _ in sizes[1:]]
    assert [len(taken.texts[0].data) - 4 for taken in (large, *small)] == sizes
    many.answer(large)
    requests[0].response()
    many.take_and_answer(two.triton.ask())  # the one with nothing in flight
    for taken, request in zip(small, requests[1:], strict=True):
        few.answer(taken)
        request.response()


def test_engines_with_equal_work_take_turns(two: Two) -> None:
    engines = two.ready()
    for _ in range(3):
        for engine in engines:
            two.until_chosen(engine, engines)


def test_an_engine_that_ends_is_skipped_until_it_is_ready_again(two: Two) -> None:
    engines = two.ready()
    stays, ends = engines
    held = [Request() for _ in range(4)]
    for request in held:
        two.triton.execute(request)
    taken = [stays.take() for _ in range(2)]
    ends.go()
    back = two.connected(1)  # the relay connects again
    failed = [request for request in held if not request.responses.empty()]
    assert [request.failure() for request in failed] == [GONE, GONE]
    for frame in taken:
        stays.answer(frame)
    for _ in range(4):  # it has not loaded the model yet
        stays.take_and_answer(two.triton.ask())
    back.send(pack_ready("{}"))
    two.until_chosen(back, [stays, back])
    two.until_chosen(stays, [stays, back])


def test_requests_fail_while_no_engine_is_ready(two: Two) -> None:
    for engine in two.ready():
        engine.go()
    back = [two.connected(index) for index in range(2)]
    request = two.triton.ask()
    assert request.failure() == GONE
    back[1].send(pack_ready("{}"))
    two.until_chosen(back[1], back)


@pytest.mark.parametrize("fault", ["loads", "refuses", "ends"])
def test_a_model_is_ready_when_one_engine_is(two: Two, fault: str) -> None:
    other, ready = (two.connected(index) for index in range(2))
    if fault == "refuses":
        other.send(pack_refused("no bundle"))
    if fault != "loads":
        other.go()
    ready.send(pack_ready("{}"))
    assert two.initialized.result(WAIT_S) is None
    for _ in range(3):
        ready.take_and_answer(two.triton.ask())


def test_a_model_whose_engines_all_refuse_it_is_not_ready(two: Two) -> None:
    for index in range(2):
        engine = two.connected(index)
        engine.send(pack_refused("no bundle"))
        engine.go()
    assert two.initialized.result(WAIT_S) == (ErrorCode.INVALID_ARG, "no bundle")


def test_cancelled_requests_are_reported_to_their_engine(two: Two) -> None:
    engines = two.ready()
    requests = [Request() for _ in engines]
    for request in requests:
        two.triton.execute(request)
    numbers = [engine.take().number for engine in engines]
    for request in requests:
        request.structure.cancelled = True
    cancelled = [unpack_cancel(engine.receive(Kind.CANCEL)) for engine in engines]
    assert cancelled == numbers
    for engine, number in zip(engines, numbers, strict=True):
        engine.send(Failure(number, ErrorCode.CANCELLED, "cancelled").pack())
    for request in requests:
        assert request.failure() == (ErrorCode.CANCELLED, "cancelled")


def test_metrics_of_engines_are_summed(two: Two) -> None:
    engines = two.ready()

    def publish(engine: Engine, sentences: float, rows: float) -> tuple[float, float]:
        """The sum of the increases, and the last value of the gauge."""
        figures = [replace(FIGURES[0], value=sentences), replace(FIGURES[1], value=rows)]
        engine.send(pack_figures(figures))
        two.until_chosen(engine, engines)  # by then the metrics before it are written
        return totals()

    def totals() -> tuple[float, float]:
        written = [(name, value) for _, name, _, value in two.triton.metrics]
        rows = [value for name, value in written if name == "rows"]
        return sum(value for name, value in written if name == "sentences_total"), rows[-1]

    first, second = engines
    assert publish(first, 2, 7) == (2, 7)
    assert publish(second, 3, 5) == (5, 12)
    assert publish(first, 1, 0) == (6, 5)
    second.go()
    back = two.connected(1)
    assert totals() == (6, 0)  # what it counted stays
    back.send(pack_ready("{}"))
    engines[1] = back
    assert publish(back, 4, 2) == (10, 2)


def test_finalizing_ends_the_connections_to_all_engines(two: Two) -> None:
    stays, ends = two.ready()
    ends.go()
    loading = two.connected(1)
    two.triton.finalize()
    two.triton.model.state = None
    assert stays.has_no_more()
    assert loading.has_no_more()


def test_finalizing_cancels_requests_in_flight(triton: Triton, engine: Engine) -> None:
    request = triton.ask()
    engine.take()
    triton.finalize()
    triton.model.state = None
    assert request.failure() == GONE


def test_structures_of_the_imitation_are_those_of_its_header(tmp_path: Path) -> None:
    in_c = compiled_layouts(STRUCTURES, HEADERS, tmp_path)
    assert {name: layout_of(structure) for name, structure in STRUCTURES.items()} == in_c


@pytest.mark.parametrize(
    ("flags", "message"),
    [([], "no socket: Too many open files"), (["-Wl,--wrap=strdup"], "no memory")],
)
def test_what_a_model_lacks_is_named(flags: list[str], message: str, tmp_path: Path) -> None:
    source, program = tmp_path / "initializes.c", tmp_path / "initializes"
    source.write_text(INITIALIZES)
    # Functions that a failed start does not call stay unresolved.
    flags = ["-std=gnu11", "-no-pie", INCLUDE, "-Wl,--unresolved-symbols=ignore-all", *flags]
    subprocess.run(["cc", *flags, source, *SOURCES, "-lpthread", "-o", program], check=True)
    done = subprocess.run(
        [program],
        env={VARIABLE: "/tmp/engine.sock"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0
    assert done.stdout == f"{message}\n"


def test_closing_reads_the_slots_under_their_lock(tmp_path: Path) -> None:
    """Otherwise, the thread sanitizer reports a data race."""
    program = tmp_path / "closing"
    sources = [Path(__file__).with_name("closing.c")]
    sources += [source for source in SOURCES if source.stem in ("frames", "in_flight")]
    flags = ["-std=gnu11", "-g", "-fsanitize=thread", INCLUDE, "-pthread"]
    done = _run(["cc", *flags, *map(str, sources), "-o", str(program)])
    if done.returncode and "tsan" in done.stderr:
        pytest.skip("no thread sanitizer")
    assert done.returncode == 0, done.stderr
    done = _run([str(program)])
    assert done.returncode == 0, done.stderr


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
