"""The Triton model `translate_stream`: text in, its translation out as it grows.

Decoupled, and without weights: it passes each text to the engine of `translate` and hands on what
comes back. Each response holds the text so far; the last one is what `translate` would answer.

Source: https://github.com/triton-inference-server/python_backend#decoupled-mode
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]

from dragoman.errors import DragomanError
from serving.stream_path import socket_path
from serving.stream_socket import StreamError, StreamRequest, open_stream
from serving.translator import InvalidRequest, Translation, check_length
from serving.triton_models import response
from serving.triton_models.cancellation import CancellationWatch
from serving.triton_models.configuration import RULES, check_names, request_rules
from serving.triton_models.reply import Reply
from serving.triton_models.request import read_request
from serving.triton_models.response import Form


class TranslateStreamModel:
    """Streams translations that the model `translate` makes."""

    def initialize(self, arguments: dict[str, str]) -> None:
        """Begin to wait for requests.

        Args:
            arguments: as Triton gives them; of `model_config` the parameters.

        Raises:
            TritonModelException: the configuration is not usable.
        """
        logging.basicConfig(level=logging.INFO, format="dragoman: %(message)s")
        entries = json.loads(arguments["model_config"])["parameters"]
        try:
            parameters = {name: entry["string_value"] for name, entry in entries.items()}
            check_names(parameters, RULES)
            self._rules = request_rules(parameters)
            self._socket = socket_path(os.getppid())
        except DragomanError as error:
            raise pb_utils.TritonModelException(str(error)) from None
        self._watch = CancellationWatch()
        self._streams: set[Future[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def execute(self, requests: Sequence[Any]) -> None:
        """Open a stream for each request; what comes of it goes out as it comes."""
        for request in requests:
            reply = Reply(request)
            try:
                asked = read_request(request, self._rules)
                if len(asked.texts) != 1:
                    raise InvalidRequest(f"text_input has {len(asked.texts)} texts: give one")
                check_length(0, asked.texts[0])
            except Exception as error:  # one request's error must not reach the others
                reply.send(response.of_error(error))
                continue
            form = Form(request.requested_output_names(), asked.shape)
            passed_on = StreamRequest(asked.texts[0], asked.options, asked.terms)
            done: Future[None] = asyncio.run_coroutine_threadsafe(
                self._pass_on(reply, form, passed_on), self._loop
            )
            self._streams.add(done)  # a task that nobody holds may be collected under way
            done.add_done_callback(self._streams.discard)
            self._watch.watch(reply.is_cancelled, done)

    def finalize(self) -> None:
        """Stop; what is under way is given up."""
        self._watch.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _pass_on(self, reply: Reply, form: Form, asked: StreamRequest) -> None:
        try:
            async for message in open_stream(self._socket, asked):
                if "final" in message:
                    translation = Translation(**message["final"])
                    reply.send(response.of_translations([translation], form))
                    return
                so_far = response.of_texts([message["text"]], [0], [response.GOING_ON], form)
                if not reply.send_part(so_far):
                    return
        except StreamError as error:
            reply.send(response.of_error(error, error.kind))
        except BaseException as error:  # whatever it was, the client must hear of it
            reply.send(response.of_error(error))
