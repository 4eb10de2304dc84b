"""KServe v2 over HTTP, `/v2`, with Triton's binary tensors and its generate extension.

Source: https://github.com/kserve/open-inference-protocol/blob/main/specification/protocol/inference_rest.md,
and Triton's docs/protocol: extension_binary_data.md, extension_generate.md
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import msgspec
from dragoman_client import __version__
from dragoman_options.frames import DataType, Tensor
from starlette.responses import Response

from dragoman_gateway.core.caller import Caller
from dragoman_gateway.core.errors import GatewayError, InvalidInput
from dragoman_gateway.protocols.kserve.inference import (
    Inference,
    Inferences,
    Input,
    Outputs,
    check_count,
    error_message,
    input_of,
)
from dragoman_gateway.protocols.kserve.models import (
    INPUTS,
    PLATFORM,
    VERSION,
    TensorType,
    check_model,
    description,
)
from dragoman_gateway.shared.gateway import Gateway
from dragoman_gateway.web.endpoints import Endpoint, Handler
from dragoman_gateway.web.events import EventResponse
from dragoman_gateway.web.requests import JSON, GatewayRequest
from dragoman_gateway.web.responses import error_headers, json_response

NAME = "kserve"
_OWN = (
    *("health", "models", "repository", "logging", "trace"),
    *("systemsharedmemory", "cudasharedmemory"),
)
"""What may follow /v2 in paths of KServe's protocol and of Triton; others are DeepL's."""
_HEAD_LENGTH = "inference-header-content-length"
_MOST_DIGITS = 20
_NOT_READY = 400
"""The protocol's status for "no"."""


class _Input(msgspec.Struct):
    name: str
    datatype: str
    shape: list[int]
    data: list[Any] | None = None
    parameters: dict[str, Any] = {}


class _Output(msgspec.Struct):
    name: str
    parameters: dict[str, Any] = {}


class _Body(msgspec.Struct):
    inputs: list[_Input] = []
    outputs: list[_Output] = []
    parameters: dict[str, Any] = {}
    id: str = ""


class KServeProtocol:
    """See `ProtocolPackage`."""

    name = NAME
    takes_keys_in_bodies = False

    def __init__(self, gateway: Gateway) -> None:
        """Make the endpoints."""
        self._gateway, self._inferences = gateway, Inferences(gateway)
        self.endpoints = (
            Endpoint("GET", "/v2", self._server),
            Endpoint("GET", "/v2/health/live", self._live),
            Endpoint("GET", "/v2/health/ready", self._ready),
            *self._of_model("GET", "", self._model),
            *self._of_model("GET", "/ready", self._ready),
            *self._of_model("POST", "/infer", self._infer),
            *self._of_model("POST", "/generate", self._generate),
            *self._of_model("POST", "/generate_stream", self._generate_stream),
        )

    def is_for(self, path: str) -> bool:
        """See `ProtocolPackage`."""
        begin, version, *rest = f"{path}/".split("/", 3)
        return (begin, version) == ("", "v2") and rest[0] in ("", *_OWN)

    def key_of(self, request: GatewayRequest) -> str | None:
        """See `ProtocolPackage`."""
        return request.bearer

    def refuse(self, _request: GatewayRequest, error: GatewayError) -> Response:
        """See `ProtocolPackage`."""
        return json_response(_error(error), error.status, error_headers(error))

    def _of_model(self, method: str, ending: str, handle: Handler) -> Sequence[Endpoint]:
        async def checked(request: GatewayRequest) -> Response:
            names = request.path_params
            check_model(names["model"], names.get("version", ""))
            return await handle(request)

        path = "/v2/models/{model}"
        return (
            Endpoint(method, path + ending, checked, takes_forms=False),
            Endpoint(method, f"{path}/versions/{{version}}{ending}", checked, takes_forms=False),
        )

    async def _server(self, _request: GatewayRequest) -> Response:
        return json_response(
            {"name": PLATFORM, "version": __version__, "extensions": ["binary_tensor_data"]}
        )

    async def _live(self, _request: GatewayRequest) -> Response:
        return Response()

    async def _ready(self, _request: GatewayRequest) -> Response:
        return Response(status_code=200 if await self._inferences.is_ready() else _NOT_READY)

    async def _model(self, request: GatewayRequest) -> Response:
        return json_response(description(request.path_params["model"]))

    async def _infer(self, request: GatewayRequest) -> Response:
        caller, (body, content) = await self._caller(request), _split(request)
        model = request.path_params["model"]
        inference = Inference(
            model,
            _inputs(model, body.inputs, content),
            body.parameters,
            {output.name: output.parameters for output in body.outputs},
            body.id,
        )
        return _infer_response(inference, await self._inferences.answer(caller, inference))

    async def _generate(self, request: GatewayRequest) -> Response:
        caller, inference = await self._caller(request), _generation(request)
        outputs = await self._inferences.answer(caller, inference)
        return json_response(_generated(inference, outputs))

    async def _generate_stream(self, request: GatewayRequest) -> Response:
        caller, inference = await self._caller(request), _generation(request)
        return EventResponse(
            self._events(caller, inference), lambda error: self.refuse(request, error), _error
        )

    async def _events(
        self, caller: Caller, inference: Inference
    ) -> AsyncGenerator[dict[str, Any], None]:
        async with aclosing(self._inferences.stream(caller, inference)) as answers:
            async for outputs, _ in answers:
                yield _generated(inference, outputs)

    async def _caller(self, request: GatewayRequest) -> Caller:
        return await request.identify(self._gateway.access, request.bearer, NAME)


def _error(error: GatewayError) -> dict[str, str]:
    return {"error": error_message(error)}


def _split(request: GatewayRequest) -> tuple[_Body, bytes]:
    """Returns the JSON of a body, and the bytes of tensors after it."""
    content = b""
    if (written := request.headers.get(_HEAD_LENGTH)) is not None:
        is_number = written.isascii() and written.isdigit() and len(written) < _MOST_DIGITS
        if not is_number or int(written) > len(request.content):
            raise InvalidInput(
                f"the header Inference-Header-Content-Length is {written[:_MOST_DIGITS]!r}: give "
                f"the number of bytes of the JSON, up to {len(request.content)}"
            )
        content = request.content[int(written) :]
        request.content = request.content[: int(written)]
    return request.read_json(_Body), content


def _inputs(model: str, tensors: Sequence[_Input], content: bytes) -> list[Input]:
    """Returns the inputs of a body, some of which have their values after it."""
    check_count(model, tensors)
    inputs, at = [], 0
    for tensor in tensors:
        size = tensor.parameters.get("binary_data_size")
        values: bytes | list[Any] = _flat(tensor) if size is None else b""
        if size is not None:
            if type(size) is not int or not 0 <= size <= len(content) - at:
                raise InvalidInput(f"{tensor.name}: its binary_data_size is not that of its bytes")
            values = content[at : at + size]
            at += size
        given = TensorType(tensor.name, tensor.datatype, tensor.shape)
        inputs.append(input_of(model, given, values, tensor.parameters))
    if at < len(content):
        raise InvalidInput(f"{len(content) - at} bytes after the JSON belong to no input")
    return inputs


def _flat(tensor: _Input) -> list[Any]:
    """Returns the values of an input, which may be in a list for each row."""
    rows = tensor.data or []
    if any(isinstance(row, list) for row in rows):
        if not all(isinstance(row, list) for row in rows):
            raise InvalidInput(f"{tensor.name}: its data has lists beside values")
        return list(itertools.chain.from_iterable(rows))
    return rows


def _infer_response(inference: Inference, outputs: Outputs) -> Response:
    """Returns an answer in JSON, with the bytes of outputs after it if they are requested."""
    usually = inference.parameters.get("binary_data_output", False)
    described: list[dict[str, Any]] = []
    contents: list[bytes] = []
    for tensor in outputs:
        datatype = DataType(tensor.datatype).name
        output: dict[str, Any] = {"name": tensor.name, "datatype": datatype, "shape": tensor.shape}
        if inference.outputs.get(tensor.name, {}).get("binary_data", usually):
            contents.append(tensor.data)
            output["parameters"] = {"binary_data_size": len(tensor.data)}
        else:
            output["data"] = _plain(tensor)
        described.append(output)
    head = msgspec.json.encode({**_head(inference), "outputs": described})
    headers = {_HEAD_LENGTH: str(len(head))} if contents else None
    kind = "application/octet-stream" if contents else JSON
    return Response(b"".join((head, *contents)), 200, headers, kind)


def _generation(request: GatewayRequest) -> Inference:
    """Returns the request in a body of the generate extension: values by the names of inputs."""
    body = request.read_json(dict[str, Any])
    parameters, id_ = body.pop("parameters", {}), body.pop("id", "")
    if not isinstance(parameters, dict) or not isinstance(id_, str | int):
        raise InvalidInput("give parameters as an object, and id as a text")
    model: str = request.path_params["model"]
    inputs = []
    for name in INPUTS[model].keys() & body.keys():
        values = value if isinstance(value := body.pop(name), list) else [value]
        known = INPUTS[model][name]
        shape = [1] * (len(known.shape) - 1) + [len(values)]
        inputs.append(input_of(model, known._replace(shape=shape), values))
    return Inference(model, inputs, parameters | body, {}, str(id_))


def _generated(inference: Inference, outputs: Outputs) -> dict[str, Any]:
    """Returns the answer of the generate extension: a value, or a list, by each output."""
    columns = {tensor.name: _plain(tensor) for tensor in outputs}
    values = {name: column[0] if len(column) == 1 else column for name, column in columns.items()}
    return {**_head(inference), **values}


def _plain(tensor: Tensor) -> list[Any]:
    """Returns the values of an output for JSON."""
    return [value.decode() if isinstance(value, bytes) else value for value in tensor.values]


def _head(inference: Inference) -> dict[str, str]:
    head = {"model_name": inference.model, "model_version": VERSION}
    return head | ({"id": inference.id} if inference.id else {})
