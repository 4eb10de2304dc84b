from __future__ import annotations

import time
from concurrent.futures import Future
from functools import partial
from typing import Any

from serving.triton_models.cancellation import CancellationWatch


def test_only_what_is_cancelled_and_not_done_is_given_up() -> None:
    watch = CancellationWatch()
    gone = [index % 3 == 0 for index in range(60)]  # more than are asked about at once
    futures: list[Future[Any]] = [Future() for _ in gone]
    asked_when_done: list[bool] = []
    done: Future[Any] = Future()
    done.set_result(None)

    def ask_when_done() -> bool:
        asked_when_done.append(True)
        return True

    watch.watch(ask_when_done, done)
    for is_gone, future in zip(gone, futures, strict=True):
        watch.watch(partial(bool, is_gone), future)
    deadline = time.monotonic() + 30
    while [future.cancelled() for future in futures] != gone:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    watch.close()
    assert not asked_when_done
