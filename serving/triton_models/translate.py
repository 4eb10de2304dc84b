"""The Triton model `translate`: text in, text out.

Knows Triton's request and response objects; everything else it hands to `serving.translator`.

`execute` returns at once; answers go out later through each request's response sender, which a
model that is not decoupled may do too, so that plain `infer` and `generate` are served on both
protocols while the engine batches what arrives.

Source: https://github.com/triton-inference-server/python_backend#default-mode
"""

from __future__ import annotations

import gc
import json
import logging
import os
import time
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]

from dragoman.errors import DragomanError
from serving.engine.engine import EngineFailure
from serving.stream_path import make_folder, socket_path
from serving.stream_socket import StreamServer
from serving.translator import Translation, Translator
from serving.triton_models import response
from serving.triton_models.answering import Answering
from serving.triton_models.cancellation import CancellationWatch
from serving.triton_models.configuration import engine_settings, request_rules
from serving.triton_models.metrics import MetricsPublisher
from serving.triton_models.reply import Reply
from serving.triton_models.request import read_request
from serving.triton_models.response import Form

_LAST_ANSWERS_S = 0.5
"""Time for the last messages of streams when the engine broke."""

_GARBAGE = 50_000
"""New objects before garbage is looked for: with Python's 700, that takes a tenth of the time."""


class TranslateModel:
    """Serves the bundle that lies beside the model's `model.py`."""

    def initialize(self, arguments: dict[str, str]) -> None:
        """Load the bundle and translate once, so that "ready" means just that.

        Args:
            arguments: as Triton gives them: `model_repository`, `model_version`, `model_config`.

        Raises:
            TritonModelException: the bundle or the configuration is not usable.
        """
        # Triton owns the log; ours goes the same way, and never holds texts.
        logging.basicConfig(level=logging.INFO, format="dragoman: %(message)s")
        folder = Path(arguments["model_repository"]) / arguments["model_version"]
        entries = json.loads(arguments["model_config"])["parameters"]
        parameters = {name: entry["string_value"] for name, entry in entries.items()}
        self._answering = Answering()
        try:
            self._rules = request_rules(parameters)
            settings = engine_settings(parameters)
            self._translator = Translator(folder / "bundle", settings, on_failure=self._give_up)
            self._translator.translate(["1"])
            make_folder()
            # Triton's process is the parent of every model's.
            self._streams = StreamServer(self._translator, socket_path(os.getppid()))
        except DragomanError as error:
            raise pb_utils.TritonModelException(str(error)) from None
        logging.getLogger(__name__).info("%s", self._translator.description)
        self._watch = CancellationWatch()
        self._metrics = MetricsPublisher(self._translator)
        # What is loaded now stays: collecting garbage must not walk through it under load.
        gc.collect()
        gc.freeze()
        gc.set_threshold(_GARBAGE)

    def execute(self, requests: Sequence[Any]) -> None:
        """Hand requests to the engine; each is answered when its translations are there."""
        for request in requests:
            reply = Reply(request)
            try:
                asked = read_request(request, self._rules)
                form = Form(request.requested_output_names(), asked.shape)
                future = self._translator.submit(asked.texts, asked.options, asked.terms)
            except Exception as error:  # one request's error must not reach the others
                reply.send(response.of_error(error))
                continue
            self._answering.expect()
            future.add_done_callback(partial(self._answer, reply, form))
            self._watch.watch(reply.is_cancelled, future)

    def finalize(self) -> None:
        """Finish what was begun."""
        self._streams.close()
        self._translator.close()
        self._answering.close()
        self._watch.close()
        self._metrics.close()

    def _answer(self, reply: Reply, form: Form, done: Future[list[Translation]]) -> None:
        self._answering.add(partial(_send, reply, form, done))

    def _give_up(self, failure: EngineFailure) -> None:
        """End the process after the engine broke: Triton then says that the model is gone."""
        self._answering.close()
        time.sleep(_LAST_ANSWERS_S)
        logging.getLogger(__name__).critical("%s; giving up", failure)
        os._exit(1)


def _send(reply: Reply, form: Form, done: Future[list[Translation]]) -> None:
    try:
        answer = response.of_translations(done.result(), form)
    except BaseException as error:  # whatever it was, the client must hear of it
        answer = response.of_error(error)
    reply.send(answer)
