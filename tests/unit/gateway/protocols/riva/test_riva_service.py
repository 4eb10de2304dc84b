"""Riva calls, most of them without a network, with a stand-in for Triton."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import nullcontext, suppress
from typing import Any

import grpc
import pytest
from dragoman_gateway.core.errors import InvalidInput, Unavailable
from dragoman_gateway.protocols.riva import messages, riva_service
from dragoman_gateway.protocols.riva.riva_service import NAME, RivaService
from dragoman_gateway.rpc import rpc_server
from dragoman_gateway.rpc.calls import CALLS, Calls
from dragoman_gateway.texts.languages import Languages
from dragoman_gateway.web.middleware.request_spans import RequestSpans
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from dragoman.kernel.tracing import TraceOptions, Tracing
from tests.campaigns import http2
from tests.campaigns.http2 import END_STREAM, Type
from tests.unit.gateway.asgi import Application
from tests.unit.gateway.callers import nobody


class Ended(Exception):
    """A call that was ended with a status."""

    def __init__(self, code: grpc.StatusCode, metadata: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(code)
        self.code, self.metadata = code, metadata


class Context:
    """The context that gRPC passes to a handler."""

    def __init__(self, address: str = "127.0.0.1", **metadata: str) -> None:
        self._address = address
        self._metadata = tuple((name.replace("_", "-"), value) for name, value in metadata.items())

    def time_remaining(self) -> None:
        return None

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return self._metadata

    def peer(self) -> str:
        return f"ipv4:{self._address}:4321"

    async def abort(
        self, code: grpc.StatusCode, _details: str, metadata: Sequence[tuple[str, str]] = ()
    ) -> None:
        raise Ended(code, metadata)


@pytest.fixture
def app() -> Iterator[Application]:
    """An application without keys that allows two requests per minute."""
    with Application(
        address="0.0.0.0",
        anonymous=True,
        anonymous_requests_per_minute=2,
        anonymous_characters_per_request=1000,
        client_share=1.0,
    ) as application:
        yield application


def service_of(app: Application, spans: RequestSpans | None = None) -> RivaService:
    calls = Calls(app.gateway, NAME, lambda *_observed: None, spans)
    return RivaService(app.gateway, calls)


async def sent(request: Any) -> AsyncIterator[bytes]:
    """The messages of a call."""
    yield request.SerializeToString()


def translating(service: RivaService) -> Any:
    """The handler of the call that translates."""
    return service._calls.unary(service._translate, messages.TranslateTextRequest).stream_unary


def translate(
    app: Application, text: str, spans: RequestSpans | None = None, **metadata: str
) -> Any:
    request = messages.TranslateTextRequest(
        texts=[text], source_language="en", target_language="de"
    )
    handler = translating(service_of(app, spans))
    answered = app.run(handler(sent(request), Context(**metadata)))
    return messages.TranslateTextResponse.FromString(answered).translations[0].text


def test_marks_are_read_only_in_admitted_texts(
    app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert translate(app, "<dnt>a</dnt>b") == "<AB>"
    monkeypatch.setattr(riva_service, "take_marks", None)
    for text, code in (
        ("a", grpc.StatusCode.INTERNAL),  # it cannot be read now
        (1001 * "a", grpc.StatusCode.RESOURCE_EXHAUSTED),  # too long
        ("a", grpc.StatusCode.RESOURCE_EXHAUSTED),  # one request too many
    ):
        with pytest.raises(Ended) as caught:
            translate(app, text)
        assert caught.value.code == code


def test_a_busy_server_says_when_to_retry(
    app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app.gateway.access, "caller", nobody(Unavailable("busy", 2.1)))
    with pytest.raises(Ended) as caught:
        translate(app, "a")
    assert caught.value.code == grpc.StatusCode.UNAVAILABLE
    assert caught.value.metadata == (("retry-after", "3"),)


def test_metadata_can_disable_the_cache() -> None:
    with Application() as app:
        for _ in range(2):
            translate(app, "Hello there.", cache_control="no-store")
        assert len(app.requests) == 2


def test_metadata_can_name_glossaries() -> None:
    terms = {"source_language": "en", "target_language": "de", "entries": {"tea": "Tee"}}
    with Application() as app:
        body = {"name": "Drinks", "dictionaries": [terms]}
        kept = app.post("/api/v1/glossaries", body).json["id"]
        translate(app, "<dnt>I</dnt> drink tea.", glossary_ids=f"{kept}, {kept}")
        (sent,) = app.requests[-1].inputs["glossary"]
        assert json.loads(sent) == {"I": "I", "tea": "Tee"}
        for ids, code in (("none", grpc.StatusCode.NOT_FOUND), (",", None)):
            with pytest.raises(Ended) if code else nullcontext() as caught:
                translate(app, "I drink tea.", glossary_ids=ids)
            assert caught is None or caught.value.code == code


def test_a_call_is_traced_with_its_status(app: Application) -> None:
    exporter = InMemorySpanExporter()
    tracing = Tracing(TraceOptions("http://unused", 0), "gateway", SimpleSpanProcessor(exporter))
    spans = RequestSpans(tracing, ("127.0.0.1",))
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"
    context = {"traceparent": f"00-{trace_id}-00f067aa0ba902b7-01"}
    translate(app, "Hello.", spans)
    assert not exporter.get_finished_spans()
    translate(app, "Hello.", spans, **context)
    with pytest.raises(Ended):
        translate(app, "Hello.", spans, **context)
    well, refused = exporter.get_finished_spans()
    common = {"dragoman.protocol": "riva", "http.response.status_code": 200}
    assert well.name == "riva translate"
    assert dict(well.attributes or {}) == {**common, "dragoman.characters": len("Hello.")}
    assert dict(refused.attributes or {})["http.response.status_code"] == 429
    assert not refused.events
    own = well.get_span_context()
    assert own is not None
    assert f"{own.trace_id:032x}" == trace_id


def test_a_fault_is_logged_without_its_message(
    app: Application, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(texts: Any) -> None:
        raise ValueError(texts[0])

    monkeypatch.setattr(riva_service, "take_marks", fail)
    with pytest.raises(Ended) as caught:
        translate(app, "a secret text")
    assert caught.value.code == grpc.StatusCode.INTERNAL
    assert "riva translate: ValueError" in caplog.text
    assert "in fail" in caplog.text
    assert "secret" not in caplog.text


def test_watchers_are_limited_and_share_their_queries(
    app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(riva_service, "_MOST_WATCHERS", 20)
    queries = []

    async def info() -> None:
        queries.append(1)

    monkeypatch.setattr(app.gateway.translations._requests, "info", info)

    async def work() -> None:
        service, request = service_of(app), messages.HealthCheckRequest()
        watched = [service._watch(sent(request), Context()) for _ in range(20)]
        for watcher in watched:
            assert (await anext(watcher)).status == 1
        with pytest.raises(Ended) as caught:
            await anext(service._watch(sent(request), Context()))
        assert caught.value.code == grpc.StatusCode.RESOURCE_EXHAUSTED
        await watched[0].aclose()  # type: ignore[attr-defined]
        assert (await anext(service._watch(sent(request), Context()))).status == 1
        for watcher in watched:
            await watcher.aclose()  # type: ignore[attr-defined]
        await asyncio.gather(*(service._check(sent(request), Context()) for _ in range(20)))

    app.run(work())
    assert len(queries) <= 2


def test_a_message_that_arrives_too_slowly_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The slow connection ends; the age of another client's connection has no effect."""
    monkeypatch.setattr(rpc_server, "_AGE_S", 1.0)
    path = f"/{messages.TRANSLATION_SERVICE}/TranslateText".encode()
    head = http2.call(path, b"").removesuffix(http2.frame(Type.DATA, END_STREAM, 1, bytes(5)))
    length = http2.frame(Type.DATA, 0, 1, b"\0" + (1000).to_bytes(4, "big"))

    async def drip(app: Application) -> None:
        async with (
            app.serving(NAME, RivaService) as port,
            grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            ended = asyncio.create_task(reader.read())
            writer.write(head + length)
            check = channel.unary_unary(f"/{messages.HEALTH_SERVICE}/Check")
            while not ended.done():
                writer.write(http2.frame(Type.DATA, 0, 1, b"x"))
                await check(b"")
                await asyncio.sleep(0.05)
            with suppress(ConnectionError):
                await ended
            writer.close()

    with Application(timeout_s=1, upload_timeout_s=1, body_bytes=1024) as app:
        app.run(asyncio.wait_for(drip(app), 20))


@pytest.mark.parametrize("path", [b"/nvidia.riva.nmt.\x9a/TranslateText", b"\xff", b"/\xc3"])
def test_a_path_that_is_not_utf_8_ends_one_call_alone(
    path: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def send(app: Application) -> None:
        async with (
            app.serving(NAME, RivaService) as port,
            grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
        ):
            for _ in range(12):
                await asyncio.to_thread(http2.exchange, port, http2.call(path, b""), 0.05)
            await channel.unary_unary(f"/{messages.HEALTH_SERVICE}/Check")(b"", timeout=10)

    with Application() as app:
        app.run(asyncio.wait_for(send(app), 30))
    assert not caplog.records


def test_an_unknown_model_is_refused_with_the_known_ones() -> None:
    languages = Languages(("en", "de", "fr"), frozenset({("en", "de"), ("de", "fr")}))
    riva_service._check_model("dragoman-en", languages)
    message = "^there is no model 'foo': give dragoman-en, dragoman-de, or leave it empty$"
    with pytest.raises(InvalidInput, match=message):
        riva_service._check_model("foo", languages)


async def _stalled() -> AsyncIterator[bytes]:
    """A message that never arrives."""
    await asyncio.sleep(60)
    yield b""


def test_no_message_is_read_without_a_key() -> None:
    read = []

    async def message() -> AsyncIterator[bytes]:
        read.append(1)
        yield b""

    with Application(address="0.0.0.0") as app:
        service = service_of(app)
        for answer, request_type in (
            (service._translate, messages.TranslateTextRequest),
            (service._languages, messages.AvailableLanguageRequest),
        ):
            handler = service._calls.unary(answer, request_type).stream_unary
            with pytest.raises(Ended) as caught:
                app.run(handler(message(), Context()))
            assert caught.value.code == grpc.StatusCode.UNAUTHENTICATED
    assert not read


def test_messages_that_do_not_arrive_keep_no_other_client_waiting() -> None:
    """Each client has a share of the memory for messages, of the calls and of the watchers."""

    async def work(app: Application) -> None:
        service = service_of(app)
        request = messages.TranslateTextRequest(texts=["A."], target_language="de")
        handler = translating(service)
        check = messages.HealthCheckRequest()
        stalled = [
            asyncio.create_task(call(_stalled(), Context("10.0.0.1")))
            for _ in range(CALLS)
            for call in (handler, service._check)
        ]
        await asyncio.sleep(0)
        async with asyncio.timeout(20):
            assert await handler(sent(request), Context("10.0.0.2"))
            assert (await service._check(sent(check), Context("10.0.0.2"))).status == 1
        refused = [task for task in stalled if task.done()]
        assert len(refused) == CALLS * 7 // 4  # of twice as many
        assert app.gateway.bodies.account(None, "").memory.held <= 8 << 20
        for task in stalled:
            task.cancel()
        await asyncio.gather(*stalled, return_exceptions=True)
        assert app.gateway.bodies.account(None, "").memory.held == 0
        watchers = [service._watch(sent(check), Context("10.0.0.1")) for _ in range(25)]
        for watcher in watchers:
            assert (await anext(watcher)).status == 1
        with pytest.raises(Ended):
            await anext(service._watch(sent(check), Context("10.0.0.1")))
        assert (await anext(service._watch(sent(check), Context("10.0.0.2")))).status == 1

    with Application(address="0.0.0.0", anonymous=True) as app:
        app.run(work(app))


def test_a_message_that_does_not_arrive_in_time_ends_the_call() -> None:
    with (
        Application(upload_timeout_s=0.1, body_bytes=1024) as app,
        pytest.raises(Ended) as caught,
    ):
        app.run(translating(service_of(app))(_stalled(), Context()))
    assert caught.value.code == grpc.StatusCode.DEADLINE_EXCEEDED


def test_a_silent_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpc_server, "_HANDSHAKE_S", 0.5)

    async def wait(app: Application) -> None:
        async with app.serving(NAME, RivaService) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            with suppress(ConnectionError):
                while await reader.read(1000):  # its settings
                    pass
            writer.close()

    with Application() as app:
        app.run(asyncio.wait_for(wait(app), 60))
