"""The engine's process of `lab.served.interpreter`, which measures where its processor time goes.

It writes the path of its socket, and after each line of input the processor seconds so far, as
JSON. It imports nothing of this folder, so that another version's interpreter can run it.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import sentencepiece
from dragoman_serving.engine.compiled import library
from dragoman_serving.service.engine_socket import EngineSocket
from dragoman_serving.service.models_to_serve import ModelsToServe
from dragoman_serving.service.server import Server

_SWITCH_S = 0.0005
"""As in the engine's process."""


class _Timed:
    """Adds up the processor time of functions that release the interpreter's lock."""

    def __init__(self) -> None:
        self.total_s = 0.0
        self._lock = threading.Lock()

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*values: Any, **more: Any) -> Any:
            begin_s = time.thread_time()
            result = function(*values, **more)
            with self._lock:
                self.total_s += time.thread_time() - begin_s
            return result

        return call


def main() -> None:
    """Serve until the input ends."""
    sys.setswitchinterval(_SWITCH_S)
    network, tokenizer = _Timed(), _Timed()
    loaded = library.load()
    loaded.encode, loaded.decode = network.wrap(loaded.encode), network.wrap(loaded.decode)
    pieces = sentencepiece.SentencePieceProcessor
    pieces.EncodeAsIds = tokenizer.wrap(pieces.EncodeAsIds)  # type: ignore[method-assign]
    with EngineSocket() as sockets:
        server = Server(sockets.listening, ModelsToServe((sys.argv[1],)))
        serving = threading.Thread(target=server.serve)
        serving.start()
        print(sockets.path, flush=True)
        for _ in sys.stdin:
            times = time.process_time(), network.total_s, tokenizer.total_s
            print(json.dumps(times), flush=True)
        server.stop()
        serving.join()


if __name__ == "__main__":
    main()
