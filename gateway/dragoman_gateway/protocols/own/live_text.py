"""Endpoints for live sessions, over HTTP and as a WebSocket."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import msgspec
from dragoman_options.table import TRANSLATE
from msgspec import UNSET, Struct
from msgspec.structs import asdict
from starlette.responses import Response
from starlette.types import Message
from starlette.websockets import WebSocket

from dragoman_gateway.core.caller import Caller
from dragoman_gateway.core.errors import GatewayError, InvalidInput, NotFound
from dragoman_gateway.live.live_sessions import IDLE_S, LiveSession
from dragoman_gateway.protocols.own.answers import answer_of, error_answer
from dragoman_gateway.protocols.own.bodies import decoded_object, read_body, read_object
from dragoman_gateway.protocols.own.callers import PROTOCOL, caller_of, counted_caller_of
from dragoman_gateway.protocols.own.replies import NO_STORE, location_of, reply
from dragoman_gateway.protocols.own.shapes import (
    LiveAnswer,
    LiveChange,
    LiveOpening,
    LiveRequest,
    LiveTranslationAnswer,
    Refusal,
)
from dragoman_gateway.shared.gateway import Gateway
from dragoman_gateway.web.endpoints import counted
from dragoman_gateway.web.requests import GatewayRequest, client_address

_FIRST_S = 10.0
"""Time for the first message of a WebSocket, which may have the key."""


class LiveText:
    """Endpoints for live sessions. Each update counts as a request, and the characters it adds."""

    def __init__(self, gateway: Gateway) -> None:
        """Store the core."""
        self.gateway = gateway

    async def create(self, request: GatewayRequest) -> Response:
        """Create a session."""
        caller = await caller_of(self.gateway, request)
        limits = (await self.gateway.translations.info()).limits
        body = read_body(request, LiveRequest, TRANSLATE, limits)
        session = await self.created(caller, request.address, body.fields, body.options)
        headers = location_of(request, self.gateway.settings, session.id)
        return reply(_session_answer(session, request.request_id), 201, headers)

    async def update(self, request: GatewayRequest) -> Response:
        """Change the text of a session, and translate it."""
        caller = await caller_of(self.gateway, request)
        change = read_body(request, LiveChange).fields
        session_id = request.path_params["id"]
        return reply(await self.updated(caller, session_id, change, request.request_id))

    async def delete(self, request: GatewayRequest) -> Response:
        """Delete a session."""
        caller = await counted_caller_of(self.gateway, request)
        self.gateway.live.delete(caller, request.path_params["id"])
        return Response(status_code=204, headers=NO_STORE)

    async def converse(self, socket: WebSocket) -> None:
        """Answer the messages of a WebSocket: the first one creates a session, others update it."""
        await socket.accept()
        conversation = _Conversation(self, socket)
        try:
            while (message := await conversation.next()) is not None:
                with socket.scope["observing"]() as record:
                    answer, record.status = await conversation.answer(message)
                    await socket.send_text(msgspec.json.encode(answer).decode())
        finally:
            conversation.end()

    async def created(
        self, caller: Caller, address: str, fields: LiveRequest, options: dict[str, Any]
    ) -> LiveSession:
        """Create a session."""
        if fields.glossary_ids:
            options["glossary_ids"] = fields.glossary_ids
        async with self.gateway.access.admitted(caller, 0):
            return await self.gateway.live.create(
                caller,
                address,
                options,
                revise=fields.revise,
                revise_sentences=fields.revise_sentences,
            )

    async def updated(
        self, caller: Caller, session_id: str, change: LiveChange, request_id: str
    ) -> LiveTranslationAnswer:
        """Update a session."""
        given = {name: value for name, value in asdict(change).items() if value is not UNSET}
        update = await self.gateway.live.update(caller, session_id, **given)
        return answer_of(LiveTranslationAnswer, update, request_id=request_id)


class _Conversation:
    """A WebSocket with its session, which is deleted at the end."""

    def __init__(self, endpoints: LiveText, socket: WebSocket) -> None:
        self._endpoints, self._gateway, self._socket = endpoints, endpoints.gateway, socket
        scheme, _, token = socket.headers.get("authorization", "").partition(" ")
        self._key = token.strip() if scheme.lower() == "bearer" else None
        self._session: LiveSession | None = None

    async def next(self) -> Message | None:
        """Returns the next message; None: the connection is closed."""
        wait_s = _FIRST_S if self._session is None else IDLE_S
        try:
            async with asyncio.timeout(wait_s):
                message = await self._socket.receive()
        except TimeoutError:
            await self._socket.close(reason=f"no message for {wait_s:g} s")
            return None
        return None if message["type"] == "websocket.disconnect" else message

    async def answer(self, message: Message) -> tuple[Struct, int]:
        """Returns the answer to a message, and its status."""
        request_id = self._socket.scope["request_id"]
        try:
            return await self._answer(message.get("text"), request_id), 200
        except GatewayError as error:
            if isinstance(error, NotFound):
                self.end()  # the session has expired: the next message may create another one
            with suppress(GatewayError):
                error = await counted(self._gateway.access, await self._caller(), error)
            return Refusal(error_answer(error), request_id), error.status

    def end(self) -> None:
        """Delete the session."""
        if self._session is not None:
            self._gateway.live.remove(self._session)
            self._session = None

    async def _answer(self, message: str | None, request_id: str) -> Struct:
        if message is None:
            raise InvalidInput("the message is binary: send JSON as text")
        given = decoded_object(message.encode(), "message")
        if self._session is not None:
            change = read_object(given, LiveChange).fields
            caller = await self._caller()
            return await self._endpoints.updated(caller, self._session.id, change, request_id)
        limits = (await self._gateway.translations.info()).limits
        body = read_object(given, LiveOpening, TRANSLATE, limits)
        self._key = body.fields.key or self._key
        self._session = await self._endpoints.created(
            await self._caller(), client_address(self._socket.scope), body.fields, body.options
        )
        return _session_answer(self._session, request_id)

    async def _caller(self) -> Caller:
        """Identify the sender with each message: a key may have been revoked."""
        address = client_address(self._socket.scope)
        caller = await self._gateway.access.caller(self._key, PROTOCOL, address)
        return caller.obeying(self._socket.headers.get("cache-control", ""))


def _session_answer(session: LiveSession, request_id: str) -> LiveAnswer:
    source, target = session.languages
    return LiveAnswer(session.id, source, target, request_id)
