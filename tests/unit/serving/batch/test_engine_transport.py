"""An engine's process used by a client, without Triton."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from dragoman_client import InvalidRequest, ServerError, Translator
from dragoman_client.transports.engine_transport import EngineHangs, _Connection
from dragoman_serving.batch import engine_transport
from dragoman_serving.batch.chunks import RowError
from dragoman_serving.batch.engine_transport import EngineTransport
from dragoman_serving.batch.row_translation import RowTranslation
from dragoman_serving.launch.processes import children
from dragoman_serving.service.models_to_serve import ModelsToServe

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Manifest
from tests.waiting import hang


def test_it_answers_like_a_server_and_restarts_after_it_ended(
    random_bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_transport, "_LATE_S", 0.2)
    before = {*children(os.getpid())}
    transport = EngineTransport(ModelsToServe((str(random_bundle),)), {"workers": "1"})
    texts = ["red blue", "", "green"]

    def engine() -> int:
        (pid,) = {*children(os.getpid())} - before
        return pid

    with Translator(transport=transport, retries=0) as translator:
        (bundle,) = translator.info().bundles
        assert bundle["identity"] == Manifest.read(random_bundle).identity
        translations = translator.translate(texts, target_language="de", return_confidence=True)
        assert [translation.text == "" for translation in translations] == [False, True, False]
        assert all(translation.confidence is not None for translation in translations)
        with pytest.raises(InvalidRequest, match="text 1 has 200000 characters") as it:
            translator.translate(["a", "b" * 200_000], target_language="de")
        assert str(it.value).endswith("as `dragoman translate --format document` does")
        assert (it.value.kind, it.value.option, it.value.text_index) == ("too_large", None, 1)

        hang(engine())
        hasty = Translator(transport=transport, timeout_s=0.2)
        with pytest.raises(EngineHangs):
            hasty.translate(texts)
        assert translator.translate(texts) == translator.translate(texts)

    assert {*children(os.getpid())} == before


def test_requests_in_progress_fail_when_the_engine_ends(random_bundle: Path) -> None:
    before = {*children(os.getpid())}
    transport = EngineTransport(ModelsToServe((str(random_bundle),)), {"workers": "1"})
    with Translator(transport=transport, retries=0) as translator, ThreadPoolExecutor() as pool:
        first = translator.translate("red")
        (pid,) = {*children(os.getpid())} - before
        hang(pid)
        under_way = pool.submit(translator.translate, "red")
        assert transport._transport is not None
        (engine,) = transport._transport._transport._engines
        (connection,) = engine.connections.values()
        while not connection._pending:
            time.sleep(0.01)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(ServerError, match="ended by itself"):
            under_way.result(60)
        assert translator.translate("red") == first


def test_bundles_that_cannot_be_served_are_named(tmp_path: Path) -> None:
    transport = EngineTransport(ModelsToServe((str(tmp_path),)), {})
    with (
        Translator(transport=transport, retries=0) as translator,
        pytest.raises(UsageError, match=str(tmp_path)),
    ):
        translator.translate("a", target_language="de")


@pytest.mark.thorough
def test_a_text_that_crashes_the_engine_does_not_fail_other_texts(
    random_bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = _Connection.send

    def send_and_end(connection: _Connection, inputs: Any, timeout_s: float) -> Any:
        assert transport._engine is not None
        crashes = b"black" in inputs.get("text_input", [])
        if crashes:
            hang(transport._engine.pid)  # so that it does not answer first
        pending = send(connection, inputs, timeout_s)
        if crashes:
            transport._engine.kill()
        return pending

    monkeypatch.setattr(_Connection, "send", send_and_end)
    transport = EngineTransport(ModelsToServe((str(random_bundle),)), {"workers": "1"})
    texts = ["red", "blue", "green", "black", "white", "pink"]
    with Translator(transport=transport, retries=0) as translator:
        alone = [translator.translate(text) for text in texts if text != "black"]
        translated = RowTranslation(translator, {}, len(texts)).translate(texts)
    assert translated.pop(3) == RowError("the engine's process ended by itself")
    assert translated == alone
