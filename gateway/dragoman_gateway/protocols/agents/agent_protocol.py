"""The Model Context Protocol over Streamable HTTP, at `/mcp`: JSON-RPC, methods and errors.

The gateway keeps no state between requests, so it speaks the stateless revision and, except for
messages that it would have to send by itself, those before it.

Source: https://modelcontextprotocol.io/specification/2026-07-28 and 2025-11-25
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import secrets
from collections.abc import Mapping
from typing import Any

import msgspec
from dragoman_client import __version__
from starlette.responses import Response

from dragoman_gateway.core.caller import Caller
from dragoman_gateway.core.errors import (
    Forbidden,
    GatewayError,
    InvalidInput,
    KeyMissing,
    KeyRefused,
    NotFound,
    WrongMediaType,
)
from dragoman_gateway.protocols.agents.agent_tools import SCHEME, Tools, arguments
from dragoman_gateway.shared.gateway import Gateway
from dragoman_gateway.web.endpoints import Endpoint
from dragoman_gateway.web.middleware.origins import Origins
from dragoman_gateway.web.requests import JSON, GatewayRequest
from dragoman_gateway.web.responses import error_headers, json_response

PATH = "/mcp"
_HANDSHAKE = ("2025-11-25", "2025-06-18", "2025-03-26")
_STATELESS = "2026-07-28"
_VERSION_HEADER, _SESSION_HEADER = "mcp-protocol-version", "mcp-session-id"
_PARSE, _INVALID_REQUEST, _NO_METHOD, _INVALID_PARAMS = -32700, -32600, -32601, -32602
_REFUSED, _NO_RESOURCE, _OTHER_HEADER, _OTHER_VERSION = -32000, -32002, -32020, -32022
_STATUSES = {_NO_METHOD: 404, _REFUSED: 200, _NO_RESOURCE: 200}
"""HTTP statuses of errors in the stateless revision; others are 400."""
_NAMED = {"tools/call": "name", "resources/read": "uri"}
"""Parameters that the header `Mcp-Name` repeats."""
_CAPABILITIES: dict[str, dict[str, Any]] = {"tools": {}, "resources": {}}
_SERVER = {"name": "dragoman", "title": "Dragoman", "version": __version__}
_INSTRUCTIONS = (
    "Translates texts and documents with a machine translation model. It does not follow "
    "instructions in texts. list_languages says between which languages."
)
_FOR_CACHES = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
"""Fields that the stateless revision requires, and others ignore."""


class RpcError(InvalidInput):
    """An error of JSON-RPC.

    Attributes:
        number: its code there.
        data: its data there.
    """

    def __init__(self, number: int, message: str, data: Any = None) -> None:
        """Store the fields."""
        super().__init__(message)
        self.number, self.data = number, data


class AgentProtocol:
    """See `ProtocolPackage`."""

    name = "mcp"
    takes_keys_in_bodies = False

    def __init__(self, gateway: Gateway) -> None:
        """Make the endpoint."""
        self._gateway, self._tools = gateway, Tools(gateway)
        self._origins = Origins(gateway.settings)
        self._calls: dict[tuple[str, str], asyncio.Task[Any]] = {}
        """Calls by session and id, for notifications that cancel one."""
        self.endpoints = (Endpoint("POST", PATH, self._answer),)

    def is_for(self, path: str) -> bool:
        """See `ProtocolPackage`."""
        return path == PATH

    def key_of(self, request: GatewayRequest) -> str | None:
        """See `ProtocolPackage`."""
        return request.bearer

    def refuse(self, request: GatewayRequest, error: GatewayError) -> Response:
        """See `ProtocolPackage`; the model that called a tool reads why it failed."""
        scope, headers, status = request.scope, error_headers(error), error.status
        number = scope.get("rpc_id")
        if scope.get("is_tool_call") and not isinstance(error, RpcError):
            parts = [{"type": "text", "text": str(error)}]
            return json_response(_result(number, {"content": parts, "isError": True}))
        if isinstance(error, KeyMissing | KeyRefused):
            status, headers["www-authenticate"] = 401, "Bearer"
        if not isinstance(error, RpcError):
            error = RpcError(_REFUSED, str(error), {"code": error.code})
        elif number is None or request.headers.get(_VERSION_HEADER) == _STATELESS:
            status = _STATUSES.get(error.number, 400)
        else:
            status = 200
        fields: dict[str, Any] = {"code": error.number, "message": str(error)}
        if error.data is not None:
            fields["data"] = error.data
        return json_response({"jsonrpc": "2.0", "id": number, "error": fields}, status, headers)

    async def _answer(self, request: GatewayRequest) -> Response:
        if self._origins.is_foreign(dict(request.scope["headers"])):
            raise Forbidden(
                "a web page of another origin may not call this: the operator allows its origin "
                "with --allowed-origins"
            )
        caller = await request.identify(self._gateway.access, request.bearer, self.name)
        if request.media_type != JSON:
            raise WrongMediaType(f"send a JSON object, with the header Content-Type: {JSON}")
        message = _message(request)
        number, method = message.get("id"), message.get("method")
        request.scope["rpc_id"] = number
        parameters = _params(message)
        _check_headers(request, method, parameters)
        session = request.headers.get(_SESSION_HEADER, "")
        if number is None or not isinstance(method, str):  # a notification, or an answer
            if method == "notifications/cancelled":
                self._cancel(session, parameters.get("requestId"))
            return Response(status_code=202)
        request.scope["is_tool_call"] = method == "tools/call"
        work = self._result(caller, method, parameters)
        result = await self._cancellable(session, number, work)
        headers = {_SESSION_HEADER: secrets.token_hex(16)} if method == "initialize" else {}
        return json_response(_result(number, result), headers=headers)

    async def _cancellable(self, session: str, number: Any, work: Any) -> Mapping[str, Any]:
        """Run a call so that a notification can cancel it."""
        task = asyncio.ensure_future(work)
        key = (session, repr(number))
        if session:
            self._calls[key] = task
        try:
            result: Mapping[str, Any] = await task
            return result
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if task.cancelled() and current is not None and not current.cancelling():
                raise RpcError(_REFUSED, "the client has cancelled the request") from None
            task.cancel()
            raise
        finally:
            self._calls.pop(key, None)

    def _cancel(self, session: str, number: Any) -> None:
        if (task := self._calls.get((session, repr(number)))) is not None:
            task.cancel()

    async def _result(
        self, caller: Caller, method: str, parameters: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Returns the result of a method."""
        match method:
            case "initialize":
                version = parameters.get("protocolVersion")
                return {
                    "protocolVersion": version if version in _HANDSHAKE else _HANDSHAKE[0],
                    "capabilities": _CAPABILITIES,
                    "serverInfo": _SERVER,
                    "instructions": _INSTRUCTIONS,
                }
            case "server/discover":
                return {
                    "supportedVersions": [_STATELESS, *_HANDSHAKE],
                    "capabilities": _CAPABILITIES,
                    "instructions": _INSTRUCTIONS,
                    "_meta": {"io.modelcontextprotocol/serverInfo": _SERVER},
                }
            case "ping":
                return {}
            case "tools/list":
                tools = self._tools.by_name.values()
                return {"tools": [tool.described for tool in tools]}
            case "tools/call":
                return await self._call(caller, parameters)
        try:
            match method:
                case "resources/list":
                    return {"resources": await self._tools.resources(caller)}
                case "resources/templates/list":
                    document = {"uriTemplate": SCHEME + "{id}", "name": "translated document"}
                    return {"resourceTemplates": [document]}
                case "resources/read":
                    uri = parameters.get("uri")
                    if not isinstance(uri, str):
                        raise RpcError(_INVALID_PARAMS, "uri is missing: give that of a resource")
                    return {"contents": await self._tools.read(caller, uri)}
        except GatewayError as error:
            if isinstance(error, RpcError):
                raise
            code = _NO_RESOURCE if isinstance(error, NotFound) else _REFUSED
            raise RpcError(code, str(error), {"code": error.code}) from error
        raise RpcError(_NO_METHOD, f"there is no method {method[:60]!r}")

    async def _call(self, caller: Caller, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        name = parameters.get("name")
        tool = self._tools.by_name.get(name) if isinstance(name, str) else None
        if tool is None:
            names = ", ".join(self._tools.by_name)
            raise RpcError(_INVALID_PARAMS, f"there is no tool {str(name)[:60]!r}: call {names}")
        given = arguments(tool, parameters.get("arguments"))
        return {**await tool.call(caller, given), "isError": False}


def _result(number: Any, result: Mapping[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "result": {**_FOR_CACHES, **result}}


def _message(request: GatewayRequest) -> Mapping[str, Any]:
    """Returns the message of a request."""
    version = request.headers.get(_VERSION_HEADER)
    supported = [_STATELESS, *_HANDSHAKE]
    if version is not None and version not in supported:
        data = {"supported": supported, "requested": version[:40]}
        raise RpcError(_OTHER_VERSION, "unsupported protocol version", data)
    try:
        message = request.read_json(dict[str, Any])
    except InvalidInput as error:
        is_json = isinstance(error.__cause__, msgspec.ValidationError)
        raise RpcError(_INVALID_REQUEST if is_json else _PARSE, str(error)) from error
    if message.get("jsonrpc") != "2.0" or not isinstance(message.get("id"), str | int | None):
        raise RpcError(_INVALID_REQUEST, "send a message of JSON-RPC 2.0")
    if isinstance(message.get("id"), bool):
        raise RpcError(_INVALID_REQUEST, "id is true or false: give a text or a number")
    return message


def _params(message: Mapping[str, Any]) -> Mapping[str, Any]:
    parameters = message.get("params")
    if parameters is not None and not isinstance(parameters, dict):
        raise RpcError(_INVALID_PARAMS, "params: give an object")
    return parameters or {}


def _check_headers(request: GatewayRequest, method: Any, parameters: Mapping[str, Any]) -> None:
    """Compare the headers by which proxies route requests of the stateless revision."""
    if request.headers.get(_VERSION_HEADER) != _STATELESS or not isinstance(method, str):
        return
    named = parameters.get(_NAMED.get(method, ""))
    if request.headers.get("mcp-method") != method or (
        named is not None and _decoded(request.headers.get("mcp-name")) != named
    ):
        message = "the headers Mcp-Method and Mcp-Name do not match the message"
        raise RpcError(_OTHER_HEADER, message)


def _decoded(header: str | None) -> str | None:
    """Returns a header, which is in base64 if it has other characters than ASCII's."""
    if header is None or not (header.startswith("=?base64?") and header.endswith("?=")):
        return header
    try:
        return base64.b64decode(header[9:-2], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
