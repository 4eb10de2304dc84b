"""`dragoman serve` with two engine processes."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import threading
import time
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pytest
from dragoman_client import Translation, TranslationError, Translator
from dragoman_options.arguments import OptionArguments
from dragoman_serving.launch.processes import cpu_s

from tests.exchanges import send
from tests.servers import WAIT_S, ServeCommand, Served, running, serving, starting

ENGINES = ("engine", "engine 2")
TEXTS = [f"I have {number} old books about the history of this town." for number in range(2, 40)]
OPTIONS: tuple[OptionArguments, ...] = (
    {"target_language": "de"},
    {"target_language": "de", "beam_width": 1},
    {"target_language": "fr", "num_return_sequences": 2, "return_scores": True},
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeCommand]:
    with running(tmp_path_factory.mktemp("served"), "--engines=2") as command:
        yield command


@pytest.fixture(scope="module")
def alone() -> Iterator[Served]:
    """A server with one engine process."""
    with serving() as served:
        yield served


def translate(server: ServeCommand, text: str) -> str:
    """The response of the gateway, which has no cache for a new text."""
    body = {"text": text, "target_language": "de"}
    answer = send(f"{server.gateway}/api/v1/translate", body)
    return str(answer.json["translations"][0]["text"])


def metric(server: ServeCommand, name: str) -> float:
    """A metric of the engines, on Triton's metrics port."""
    with Translator(server.grpc, timeout_s=WAIT_S) as client:
        address = f"http://127.0.0.1:{client.info().metrics_port}/metrics"
    lines = send(address).body.decode()
    (value,) = re.findall(rf'^dragoman_{name}{{model="translate"}} (\S+)$', lines, re.MULTILINE)
    return float(value)


def reported(server: ServeCommand, name: str) -> float:
    """A metric once the processes, which report every half second, have no more to report."""
    value, before = metric(server, name), -1.0
    while value != before:
        time.sleep(1.5)
        value, before = metric(server, name), value
    return value


def wait_until_both_work(server: ServeCommand, send: object) -> None:
    """Send requests until each engine process has used processor time for them."""
    assert callable(send)
    pids = [server.pids()[name] for name in ENGINES]
    before = [cpu_s(pid) for pid in pids]
    server.wait_for(
        lambda: (
            send() is not None
            and all(cpu_s(pid) > begun + 0.1 for pid, begun in zip(pids, before, strict=True))
        )
    )


def test_requests_of_both_doors_reach_both_processes(server: ServeCommand) -> None:
    with Translator(server.grpc, timeout_s=WAIT_S) as client:
        wait_until_both_work(server, lambda: client.translate(TEXTS))
    numbers = iter(range(10**6))
    with ThreadPoolExecutor(4) as pool:
        wait_until_both_work(
            server,
            lambda: [
                *pool.map(
                    lambda n: translate(server, f"{n} ships."), [next(numbers) for _ in range(8)]
                )
            ],
        )


@pytest.mark.parametrize("options", OPTIONS)
def test_answers_are_those_of_one_process(
    server: ServeCommand, alone: Served, options: OptionArguments
) -> None:
    expected = alone.grpc.translate(TEXTS, **options)
    with Translator(server.grpc, timeout_s=WAIT_S) as client, ThreadPoolExecutor(8) as pool:
        for _ in ENGINES:
            assert [*pool.map(lambda text: client.translate(text, **options), TEXTS)] == expected
    if options == OPTIONS[0]:
        assert [translate(server, text) for text in TEXTS[:4]] == [
            translation.text for translation in expected[:4]
        ]


def test_metrics_are_summed(server: ServeCommand) -> None:
    before = reported(server, "sentences_total")
    with Translator(server.grpc, timeout_s=WAIT_S) as client:
        for text in TEXTS:  # in turns
            client.translate(text, repair=False)
    server.wait_for(lambda: metric(server, "sentences_total") == before + len(TEXTS))
    # Each process has as many rows as its workers, of which there is at least one.
    assert metric(server, "rows_limit") >= 2 * 32


def test_the_log_names_the_processes(server: ServeCommand) -> None:
    for number in (1, 2):
        assert f"dragoman engine {number}: model en-de-fr: int8" in server.log


@pytest.mark.parametrize("who", ENGINES)
def test_a_killed_process_comes_back_and_no_request_is_lost_silently(
    server: ServeCommand, who: str
) -> None:
    """The gateway sends them again; to Triton's clients they fail with an error."""
    ends, answered, failed = threading.Event(), list[str](), list[TranslationError]()

    def ask_gateway(number: int) -> None:
        count = 0
        while not ends.is_set():
            count += 1
            answered.append(translate(server, f"{number} men have {count} {who} ships."))

    def ask_triton(number: int) -> None:
        with Translator(server.grpc, timeout_s=WAIT_S, retries=0) as client:
            while not ends.is_set():
                try:
                    answered.append(client.translate(f"I have {number} books.").text)
                except TranslationError as error:
                    failed.append(error)

    again = f"the engine's process {ENGINES.index(who) + 1} is ready again"
    starts, readies = server.log.count(again), server.log.count("ready: ")
    with server.replacing(who) as pids, ThreadPoolExecutor(8) as pool:
        asking = [pool.submit(ask, n) for n in range(4) for ask in (ask_gateway, ask_triton)]
        server.wait_for(lambda: len(answered) > 40)
        os.kill(pids[who], signal.SIGKILL)
        count = len(answered)
        server.wait_for(lambda: len(answered) > count + 40)  # the other one goes on
        assert server.gateway_is_ready()
        server.wait_for(lambda: server.log.count(again) > starts)
        ends.set()
        for future in asking:
            future.result(WAIT_S)
    assert {str(error) for error in failed} <= {"the engine's process has gone"}
    assert len(failed) <= 4  # at most one a client
    assert server.log.count("ready: ") == readies  # the server as a whole went on
    with Translator(server.grpc, timeout_s=WAIT_S) as client:
        wait_until_both_work(server, lambda: client.translate(TEXTS))


def test_a_stream_stays_on_its_process_and_its_cancellation_reaches_it(
    server: ServeCommand,
) -> None:
    text = " ".join(TEXTS * 20)

    def cancel(client: Translator) -> None:
        before = metric(server, "sentences_cancelled_total")
        parts = client.translate_stream(text, split_sentences=True)
        with contextlib.closing(cast(Generator[Translation, None, None], parts)):
            texts = [next(parts).text for _ in range(3)]
            assert texts[1].startswith(texts[0])
            assert texts[2].startswith(texts[1])
        server.wait_for(lambda: metric(server, "sentences_cancelled_total") > before)
        server.wait_for(lambda: metric(server, "rows") == 0)

    with Translator(server.http, timeout_s=WAIT_S) as client:
        for _ in ENGINES:
            cancel(client)


def test_a_hanging_process_is_replaced_while_the_other_answers(tmp_path: Path) -> None:
    with (
        running(tmp_path, "--engines=2", "--engine-timeout=4") as server,
        server.replacing("engine 2") as pids,
    ):
        os.kill(pids["engine 2"], signal.SIGSTOP)
        server.wait_for(lambda: "the engine 2 has hung for 4 s; starting it again" in server.log)
        server.wait_for(lambda: "the engine's process 2 is ready again" in server.log)
        assert server.translates()
        assert server.gateway_is_ready()


def test_the_server_starts_again_when_all_processes_have_ended(tmp_path: Path) -> None:
    with running(tmp_path, "--engines=2", "--no-gateway") as server:
        before, readies = server.pids(), server.log.count("ready: ")
        server.process.send_signal(signal.SIGSTOP)  # so that it sees both ends at once
        for name in ENGINES:
            with open(os.pidfd_open(before[name])) as ended:
                os.kill(before[name], signal.SIGKILL)
                assert select.select([ended], [], [], WAIT_S)[0]
        server.process.send_signal(signal.SIGCONT)
        server.wait_for(lambda: server.log.count("ready: ") > readies)
        assert server.translates()
        after = server.pids()
        assert after.keys() == before.keys()
        assert not {*before.values()} & {*after.values()}


def test_without_triton_the_gateway_has_the_metrics_of_both(tmp_path: Path) -> None:
    with starting(tmp_path, "--engines=2", "--no-triton") as server:
        server.wait_for(lambda: "(gateway)" in server.log or "ready: " in server.log)
        for number in range(20):
            translate(server, f"{number} ships are in the harbour.")

        def sentences() -> float:
            lines = send(f"{server.gateway}/metrics").body.decode()
            return sum(map(float, re.findall(r"^dragoman_sentences_total\S* (\S+)$", lines, re.M)))

        server.wait_for(lambda: sentences() >= 20)


def test_a_normal_stop_ends_all_processes(tmp_path: Path) -> None:
    with running(tmp_path, "--engines=2", "--no-gateway") as server:
        pids = server.pids()
        with ThreadPoolExecutor(1) as pool, Translator(server.grpc, timeout_s=WAIT_S) as client:
            under_way = pool.submit(client.translate, TEXTS * 5, beam_width=4)
            server.wait_for(lambda: metric(server, "rows") > 0)
            server.process.terminate()
            assert len(under_way.result(WAIT_S)) == 5 * len(TEXTS)
            assert server.process.wait(WAIT_S) == 0
        assert not [pid for pid in pids.values() if Path(f"/proc/{pid}").exists()]
