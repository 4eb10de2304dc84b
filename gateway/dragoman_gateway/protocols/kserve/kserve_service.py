"""KServe v2 over gRPC: the calls of `inference.GRPCInferenceService` that translate.

Source: https://github.com/triton-inference-server/common/blob/main/protobuf/grpc_service.proto
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import grpc
from dragoman_client import __version__
from dragoman_options.frames import DataType
from dragoman_options.refusal import Refusal

from dragoman_gateway.core.caller import Caller
from dragoman_gateway.core.errors import GatewayError, InvalidInput
from dragoman_gateway.protocols.kserve.inference import (
    Inference,
    Inferences,
    Outputs,
    check_count,
    error_message,
    input_of,
)
from dragoman_gateway.protocols.kserve.models import (
    PLATFORM,
    VERSION,
    TensorType,
    check_model,
    description,
)
from dragoman_gateway.rpc.calls import Calls, code_of
from dragoman_gateway.shared.gateway import Gateway

SERVICE = "inference.GRPCInferenceService"
_CONTENTS = {
    "BOOL": "bool_contents",
    "BYTES": "bytes_contents",
    "FP32": "fp32_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
}
"""Fields with the values of an input by its type."""


class KServeService:
    """Answers the calls of KServe's protocol."""

    def __init__(self, gateway: Gateway, calls: Calls) -> None:
        """Store the parts.

        Args:
            gateway: the gateway's core.
            calls: makes the handlers.
        """
        from tritonclient.grpc import service_pb2  # slow, and most gateways have no such port

        self._calls, self._messages, self._inferences = calls, service_pb2, Inferences(gateway)

    @property
    def handlers(self) -> list[Any]:
        """The handlers for a gRPC server."""
        calls, messages = self._calls, self._messages
        handlers = {
            "ServerLive": calls.keyless(self._server_live, messages.ServerLiveRequest),
            "ServerReady": calls.keyless(self._server_ready, messages.ServerReadyRequest),
            "ServerMetadata": calls.keyless(self._server, messages.ServerMetadataRequest),
            "ModelReady": calls.keyless(self._model_ready, messages.ModelReadyRequest),
            "ModelMetadata": calls.keyless(self._model, messages.ModelMetadataRequest),
            "ModelInfer": calls.unary(self._model_infer, messages.ModelInferRequest),
            "ModelStreamInfer": calls.stream(
                self._model_stream_infer, messages.ModelInferRequest, self._refused
            ),
        }
        return [grpc.method_handlers_generic_handler(SERVICE, handlers)]

    async def _server_live(self, _request: Any) -> Any:
        return self._messages.ServerLiveResponse(live=True)

    async def _server_ready(self, _request: Any) -> Any:
        return self._messages.ServerReadyResponse(ready=await self._inferences.is_ready())

    async def _server(self, _request: Any) -> Any:
        return self._messages.ServerMetadataResponse(name=PLATFORM, version=__version__)

    async def _model_ready(self, request: Any) -> Any:
        check_model(request.name, request.version)
        return self._messages.ModelReadyResponse(ready=await self._inferences.is_ready())

    async def _model(self, request: Any) -> Any:
        check_model(request.name, request.version)
        return self._messages.ModelMetadataResponse(**description(request.name))

    async def _model_infer(self, request: Any, _context: Any, caller: Caller) -> Any:
        try:
            inference = _inference(request)
            return self._response(inference, await self._inferences.answer(caller, inference))
        except InvalidInput as error:
            refusal = Refusal.of(error)
            raise InvalidInput(error_message(error), *refusal[1:]) from error

    async def _model_stream_infer(self, request: Any, caller: Caller) -> AsyncGenerator[Any, None]:
        inference = _inference(request)
        async with aclosing(self._inferences.stream(caller, inference)) as answers:
            async for outputs, is_last in answers:
                response = self._response(inference, outputs)
                response.parameters["triton_final_response"].bool_param = is_last
                yield self._messages.ModelStreamInferResponse(infer_response=response)

    def _refused(self, request: Any, error: GatewayError) -> Any:
        """Returns an error in a stream, which has no status: the message begins with it."""
        return self._messages.ModelStreamInferResponse(
            error_message=f"{code_of(error).name}: {error_message(error)}",
            infer_response=self._messages.ModelInferResponse(id=request.id),
        )

    def _response(self, inference: Inference, outputs: Outputs) -> Any:
        response = self._messages.ModelInferResponse(
            model_name=inference.model, model_version=VERSION, id=inference.id
        )
        for tensor in outputs:
            datatype = DataType(tensor.datatype).name
            response.outputs.add(name=tensor.name, datatype=datatype, shape=tensor.shape)
            response.raw_output_contents.append(tensor.data)
        return response


def _inference(request: Any) -> Inference:
    """Returns the request in a message."""
    model = request.model_name
    check_model(model, request.model_version)
    raw = request.raw_input_contents
    if raw and len(raw) != len(request.inputs):
        raise InvalidInput(f"{len(request.inputs)} inputs with {len(raw)} raw_input_contents")
    check_count(model, request.inputs)
    inputs = []
    for index, tensor in enumerate(request.inputs):
        contents = getattr(tensor.contents, _CONTENTS.get(tensor.datatype, "bytes_contents"))
        values = raw[index] if raw else [*contents]
        given = TensorType(tensor.name, tensor.datatype, [*tensor.shape])
        inputs.append(input_of(model, given, values, tensor.parameters))
    outputs = {output.name: output.parameters for output in request.outputs}
    return Inference(model, inputs, _parameters(request), outputs, request.id)


def _parameters(request: Any) -> dict[str, Any]:
    """Returns the parameters of a request by name."""
    chosen = {
        name: (value, value.WhichOneof("parameter_choice"))
        for name, value in request.parameters.items()
    }
    return {name: getattr(value, kind) for name, (value, kind) in chosen.items() if kind}
