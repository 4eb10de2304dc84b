"""Several engine processes: which one is restarted, and when the whole server is."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from dragoman_options.frames import pack_ready, pack_refused, split_paths
from dragoman_serving.launch import engine_group
from dragoman_serving.launch.engine_group import EngineGroup
from dragoman_serving.launch.engine_process import StartFailed
from dragoman_serving.launch.engine_shares import Share
from dragoman_serving.launch.serve_options import ServeOptions
from dragoman_serving.launch.watch import Heartbeat
from dragoman_serving.service.engine_socket import EngineSocket
from dragoman_serving.service.models_to_serve import ModelsToServe

from tests.timing import set_clock

DIED = "the engine's process{} has died; the log above says why"


class Process:
    """An engine process that does what a test says."""

    def __init__(self, door: EngineSocket, to_serve: ModelsToServe, **how: Any) -> None:
        self.door, self.how = door, {**how, "to_serve": to_serve}
        self.runs, self.stopped = True, False
        self.heartbeat = Heartbeat(-1)

    def kill(self) -> None:
        self.runs = False

    terminate = kill

    def stop(self) -> None:
        self.kill()
        self.stopped = True

    def answer(self, frame: bytes) -> None:
        """Answer the client that waits until the process has loaded."""
        self.door.listening.settimeout(60)
        with self.door.listening.accept()[0] as client:
            assert client.recv(1 << 16)
            client.sendall(frame)


class Group:
    """A group of such processes, its log, and a clock."""

    def __init__(self, patch: pytest.MonkeyPatch, number: int, **options: Any) -> None:
        self.started: list[Process] = []
        self.said: list[str] = []
        self.now_s = 1000.0
        patch.setattr(engine_group, "EngineProcess", self._start)
        set_clock(patch, engine_group.__name__, lambda: self.now_s)
        self.group = EngineGroup(number, ServeOptions(None, **options), 8002, self.said.append)
        shares = [Share({"workers": str(index)}, ModelsToServe()) for index in range(number)]
        self.group.start(shares)
        self.now_s += 100.0

    def _start(self, *arguments: Any, **how: Any) -> Process:
        process = Process(*arguments, **how)
        self.started.append(process)
        return process

    def load(self) -> None:
        for process in self.group.processes:
            process.answer(pack_ready("{}"))  # type: ignore[attr-defined]

    def new(self, before: int) -> Process:
        """The only process that was started since there were so many."""
        (process,) = self.started[before:]
        return process


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    made: list[Group] = []

    def start(number: int, **options: Any) -> Group:
        made.append(Group(monkeypatch, number, **options))
        return made[-1]

    yield start
    for each in made:
        each.group.stop()
        each.group.__exit__()


def test_each_process_has_a_name_a_share_and_a_socket_of_its_own(make: Any) -> None:
    group = make(3)
    assert [process.how["name"] for process in group.started] == ["1", "2", "3"]
    assert [process.how["parameters"]["workers"] for process in group.started] == ["0", "1", "2"]
    paths = split_paths(group.group.paths)
    assert paths == [str(process.door.path) for process in group.started]
    assert len(set(paths)) == 3
    (alone,) = make(1).started
    assert alone.how["name"] == ""


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_process_that_ends_is_restarted_alone(make: Any, index: int) -> None:
    group = make(3)
    ended = group.started[index]
    ended.runs = False
    assert group.group.look() is None
    assert group.group.runs
    process = group.new(3)
    assert (process.door, process.how) == (ended.door, ended.how)
    assert ended.stopped
    assert [each.stopped for each in group.started].count(True) == 1
    assert group.said == [f"{DIED.format(f' {index + 1}')}; starting it again"]
    process.answer(pack_ready("{}"))
    assert group.group.look() is None
    assert group.said[1:] == [f"the engine's process {index + 1} is ready again"]
    assert group.group.look() is None
    assert len(group.said) == 2


def test_a_process_that_hangs_is_restarted_alone(make: Any) -> None:
    group = make(2, engine_timeout_s=4.0)
    group.started[0].heartbeat.silent_s = 3.9
    assert group.group.look() is None
    assert len(group.started) == 2
    group.started[0].heartbeat.silent_s = 4.0
    assert group.group.look() is None
    assert group.said == ["the engine 1 has hung for 4 s; starting it again"]
    loading = group.new(2)
    loading.heartbeat.silent_s = 10.0  # while it loads, it may be silent for longer
    assert group.group.look() is None
    assert group.new(2) is loading
    loading.answer(pack_ready("{}"))
    assert group.group.look() is None
    assert group.group.look() is None  # as soon as it has loaded, the timeout applies
    assert group.said[-1].startswith("the engine 1 has hung for 4 s; starting it again")


@pytest.mark.parametrize("number", [1, 2])
def test_the_server_is_restarted_when_no_process_runs(make: Any, number: int) -> None:
    group = make(number)
    for process in group.started:
        process.runs = False
    assert group.group.look() == DIED.format(" 1" if number > 1 else "")
    assert not group.group.runs
    assert len(group.started) == number
    assert group.said == []


def test_without_restarts_the_first_end_is_the_end(make: Any) -> None:
    group = make(2, restart_engines=False)
    group.started[1].runs = False
    assert group.group.look() == DIED.format(" 2")


def test_the_last_process_counts_even_if_another_one_waits_for_its_start(make: Any) -> None:
    group = make(2)
    group.started[0].runs = False
    assert group.group.look() is None
    group.new(2).runs = False  # before it has loaded, so the next start is delayed
    assert group.group.look() is None
    group.started[1].runs = False
    assert group.group.look() == DIED.format(" 2")


def test_starts_that_fail_are_repeated_with_a_growing_delay(make: Any) -> None:
    group = make(2)
    group.started[0].runs = False
    assert group.group.look() is None
    delays_s = []
    for count in range(3, 7):
        group.new(count - 1).answer(pack_refused("no bundle"))
        assert group.group.look() is None
        delays_s.append(float(group.said[-1].split()[-2]))
        assert "the engine's process 1 cannot be used: no bundle; starting it" in group.said[-1]
        group.now_s += delays_s[-1] - 0.01
        assert group.group.look() is None
        assert len(group.started) == count
        group.now_s += 0.02
        assert group.group.look() is None
    assert delays_s == [0.2, 0.4, 0.8, 1.6]
    assert group.started[1].runs


def test_a_process_that_cannot_be_started_is_tried_again(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = make(2)

    def fail(*_: Any, **__: Any) -> Any:
        raise OSError("no memory")

    group.started[0].runs = False
    with monkeypatch.context() as patch:
        patch.setattr(engine_group, "EngineProcess", fail)
        assert group.group.look() is None
    assert group.said[-1] == "the engine's process 1 did not start: no memory"
    group.now_s += 1
    assert group.group.look() is None
    assert group.new(2).runs


def test_the_server_waits_until_all_processes_have_loaded(make: Any) -> None:
    group = make(2)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(group.group.wait_until_loaded)
        group.started[1].answer(pack_ready("{}"))
        assert not waiting.done()
        group.started[0].answer(pack_ready("{}"))
        assert waiting.result(60) is None


@pytest.mark.parametrize("refuses", [False, True])
def test_a_process_that_cannot_load_ends_the_start(make: Any, refuses: bool) -> None:
    group = make(2)
    group.started[1].runs = refuses
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(group.group.wait_until_loaded)
        group.started[0].answer(pack_ready("{}"))
        if refuses:
            group.started[1].answer(pack_refused("no bundle"))
        message = "no bundle" if refuses else "the engine's process 2 has died"
        with pytest.raises(StartFailed, match=message):
            waiting.result(60)
