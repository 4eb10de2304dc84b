"""Requests of KServe's protocol as texts and options, and answers as tensors.

The gateway's sentence cache, glossaries and limits apply, as for every protocol: no request is
passed on as it is.
"""

from __future__ import annotations

import asyncio
import math
import struct
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import msgspec
from dragoman_client import ServerInfo, Translation
from dragoman_client.core.request import REPEATED
from dragoman_options.frames import DataType, Tensor
from dragoman_options.option import brief
from dragoman_options.refusal import Refusal
from dragoman_options.table import (
    INFO,
    OPTIONS,
    OUTPUTS,
    SCORE,
    STREAM,
    TARGET,
    TEXT,
    TEXT_INPUTS,
    Assessed,
    check,
    requested_outputs,
)

from dragoman_gateway.core.caller import Caller
from dragoman_gateway.core.errors import (
    DeadlineExceeded,
    GatewayError,
    InvalidInput,
    Unsupported,
    client_errors,
)
from dragoman_gateway.protocols.kserve.models import (
    ANSWERS,
    INPUTS,
    TensorType,
)
from dragoman_gateway.shared.gateway import Gateway
from dragoman_gateway.web.fields import Fields

_MOST_VALUES = 100_000
"""Maximum number of values of a tensor, which are read in the event loop."""
_MOST_DIMENSIONS = 2
_LENGTH = struct.Struct("<I")
_NUMBERS = {
    name: struct.Struct(f"<{code}")
    for name, code in {"BOOL": "?", "FP32": "f", "INT32": "i", "INT64": "q"}.items()
}
_IGNORED = (
    *("timeout", "priority", "sequence_id", "sequence_start", "sequence_end"),
    *("binary_data_output", "triton_enable_empty_final_response"),
)
"""Parameters of Triton's clients that are no options."""
_STORED = ("glossary_ids", "memory_id")
"""Parameters that name what the gateway stores."""
_NONE: Mapping[str, Any] = {}
_NOT_OFFERED = ("shared_memory_region", "classification")
"""Parameters of tensors."""


class Input(NamedTuple):
    """An input; its values are numbers, and texts as `str` or UTF-8 bytes."""

    name: str
    shape: Sequence[int]
    values: Sequence[Any]


@dataclass(frozen=True)
class Inference:
    """A request.

    Attributes:
        model: name of the model; it exists.
        inputs: the inputs.
        parameters: parameters of the request; options among them count like inputs.
        outputs: the parameters of the requested outputs by name; empty: all outputs.
        id: the client's id of the request.
    """

    model: str
    inputs: Sequence[Input]
    parameters: Mapping[str, Any]
    outputs: Mapping[str, Mapping[str, Any]]
    id: str = ""


Outputs = Sequence[Tensor]


class Inferences:
    """Answers requests of callers."""

    def __init__(self, gateway: Gateway) -> None:
        """Store the core."""
        self._gateway, self._translations = gateway, gateway.translations

    async def is_ready(self) -> bool:
        """Whether the server can translate now."""
        return not self._gateway.stopping and await self._translations.is_ready()

    async def answer(self, caller: Caller, request: Inference) -> Outputs:
        """Answer a request at once.

        Raises:
            GatewayError: the request failed.
        """
        if request.model == STREAM:
            raise Unsupported(
                f"{STREAM} answers with a stream: send the request to generate_stream, or to "
                "ModelStreamInfer over gRPC"
            )
        own_s = self._own_timeout_s(request)
        try:
            async with asyncio.timeout(own_s):
                return await self._answer(caller, request)
        except TimeoutError as error:
            raise _late(own_s) from error

    async def stream(
        self, caller: Caller, request: Inference
    ) -> AsyncGenerator[tuple[Outputs, bool], None]:
        """Answer a request with the growing translation, or at once if the model has no stream.

        Yields:
            The outputs, and whether they are the last ones.

        Raises:
            GatewayError: the request failed; raised while iterating.
        """
        if request.model != STREAM:
            yield await self.answer(caller, request), True
            return
        own_s = self._own_timeout_s(request)
        deadline_s = None if own_s is None else asyncio.get_running_loop().time() + own_s
        inputs, options = await self._read(request)
        texts, shape = _texts(inputs[TEXT]), inputs[TEXT].shape
        if len(texts) != 1:
            raise InvalidInput(f"{TEXT} has {len(texts)} texts: give one", option=TEXT)
        async with aclosing(self._translations.stream(caller, texts[0], options)) as parts:
            while True:
                try:
                    async with asyncio.timeout_at(deadline_s):
                        part = await anext(parts, None)
                except TimeoutError as error:
                    raise _late(own_s) from error
                if part is None:
                    return
                yield _outputs(request, [part], options, shape), bool(part.finish_reason)

    async def _answer(self, caller: Caller, request: Inference) -> Outputs:
        if request.model == INFO:
            async with self._gateway.access.admitted(caller, 0):
                info = _described(await self._translations.info())
            return [Tensor.of(INFO, DataType.BYTES, (1,), [info])]
        inputs, options = await self._read(request)
        texts, shape = _texts(inputs[TEXT]), inputs[TEXT].shape
        if request.model == SCORE:
            targets = _texts(inputs[TARGET], "target")
            if len(targets) != len(texts):
                raise InvalidInput(
                    f"{TEXT} and {TARGET} have {len(texts)} and {len(targets)} values: give a "
                    "translation for each text",
                    option=TARGET,
                )
            scored = await self._translations.score(caller, texts, targets, options)
            return _outputs(request, scored, options, shape)
        each = options.get("num_return_sequences", 1)
        translations = await self._translations.translate(caller, texts, options)
        rows = [row for translation in translations for row in _filled(translation, each)]
        return _outputs(request, rows, options, (*shape[:-1], shape[-1] * each))

    async def _read(self, request: Inference) -> tuple[dict[str, Input], dict[str, Any]]:
        """Returns the inputs of a request by name, and its checked options."""
        texts = TEXT_INPUTS[request.model]
        inputs = {given.name: given for given in request.inputs}
        if len(inputs) < len(request.inputs):
            raise InvalidInput("an input is given twice")
        for name in texts:
            if name not in inputs:
                raise InvalidInput(f"{name} is missing", option=name)
        form = INPUTS[request.model][TEXT].shape
        if len(shape := inputs[TEXT].shape) != len(form):
            raise InvalidInput(f"{TEXT} has the shape {shape}: give {form}", option=TEXT)
        for name, parameters in request.outputs.items():
            _check_parameters(parameters)
            if name not in ANSWERS[request.model]:
                raise InvalidInput(f"{request.model} has no output {brief(name)}")
        given = {name: value for name, value in request.parameters.items() if name not in _IGNORED}
        stored = {name: given.pop(name) for name in _STORED if name in given}
        given |= {name: _option(tensor) for name, tensor in inputs.items() if name not in texts}
        limits = (await self._translations.info()).limits
        with client_errors():
            options = check(given, request.model, limits)
        if ids := Fields(stored).listed("glossary_ids"):
            options["glossary_ids"] = ids
        if memory_id := Fields(stored).text("memory_id"):
            options["memory_id"] = memory_id
        return inputs, options

    def _own_timeout_s(self, request: Inference) -> float | None:
        """Returns the time that a request sets, in microseconds; None: the gateway's ends first."""
        timeout_us = request.parameters.get("timeout") or 0
        if type(timeout_us) is not int or timeout_us < 0:
            raise InvalidInput(
                f"timeout is {brief(timeout_us)}: give microseconds", option="timeout"
            )
        own_s = timeout_us / 1e6
        return own_s if 0 < own_s < self._gateway.settings.timeout_s else None


def input_of(
    model: str,
    given: TensorType,
    values: bytes | Sequence[Any],
    parameters: Mapping[str, Any] = _NONE,
) -> Input:
    """Returns an input.

    Args:
        model: name of the model.
        given: its name, type and shape.
        values: its values, or Triton's bytes of them.
        parameters: parameters of the tensor.

    Raises:
        InvalidInput: there is no such input, or it has another type, or more or fewer values.
        Unsupported: a parameter names a feature that is not offered.
    """
    name, datatype, shape = given
    if name not in INPUTS[model]:
        with client_errors():
            check({name: None})  # refuses an unknown name, and suggests one
        raise InvalidInput(f"{model} has no input {brief(name)}", "unknown_option")
    if datatype != (expected := INPUTS[model][name].datatype):
        raise InvalidInput(f"{name} has the type {brief(datatype)}: give {expected}", option=name)
    _check_parameters(parameters)
    count = math.prod(shape[:_MOST_DIMENSIONS])
    is_too_large = max(count, *shape, 0) > _MOST_VALUES
    if is_too_large or len(shape) > _MOST_DIMENSIONS or min(shape, default=0) < 0:
        raise InvalidInput(
            f"{name} has the shape {brief(shape)}: give up to {_MOST_VALUES:,} values in "
            f"{_MOST_DIMENSIONS} dimensions",
            option=name,
        )
    if isinstance(values, bytes):
        values = _decoded(datatype, values, count)
    if len(values) != count:
        message = f"{name} has more or fewer values than its shape {shape}"
        raise InvalidInput(message, option=name)
    return Input(name, shape, values)


def check_count(model: str, tensors: Sequence[Any]) -> None:
    """Refuse more inputs than a model has.

    Raises:
        InvalidInput: there are more.
    """
    if len(tensors) > (most := len(INPUTS[model])):
        raise InvalidInput(f"{len(tensors):,} inputs: {model} has {most}")


def _check_parameters(parameters: Mapping[str, Any]) -> None:
    for name in _NOT_OFFERED:
        if name in parameters:
            raise Unsupported(f"{name} is not offered: send and receive values")


def error_message(error: GatewayError) -> str:
    """Returns the message of an error; the fields of a refusal are at its end, as in Triton."""
    return str(Refusal.of(error)) if isinstance(error, InvalidInput) else str(error)


def _decoded(datatype: str, content: bytes, count: int) -> list[Any]:
    """Returns the values in Triton's bytes; only one more than the count, if there are more.

    Empty if the bytes are damaged.
    """
    try:
        if datatype != "BYTES":
            number = _NUMBERS[datatype]
            if len(content) % number.size:
                return []
            return [value for (value,) in number.iter_unpack(content[: (count + 1) * number.size])]
        values: list[bytes] = []
        at = 0
        while at < len(content) and len(values) <= count:
            (length,) = _LENGTH.unpack_from(content, at)
            begin, at = at + _LENGTH.size, at + _LENGTH.size + length
            values.append(content[begin:at])
    except (ValueError, struct.error):
        return []
    return values if at <= len(content) else []


def _option(tensor: Input) -> Any:
    """Returns the value of an option, which may be repeated for each text."""
    name, values = tensor.name, tensor.values
    decoded = [_text(value, name) if type(value) is bytes else value for value in values]
    if OPTIONS[name].is_list:
        return tuple(decoded)
    if not decoded or any(value != decoded[0] for value in decoded):
        message = f"{name} has {len(decoded)} different values: give one for all texts"
        raise InvalidInput(message, option=name)
    return decoded[0]


def _texts(tensor: Input, what: str = "text") -> list[str]:
    option = None if tensor.name == TEXT else tensor.name
    return [
        _text(value, f"{what} {index}", option, index) for index, value in enumerate(tensor.values)
    ]


def _text(value: Any, what: str, option: str | None = None, index: int | None = None) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, bytes):
        raise InvalidInput(
            f"{what} is {brief(value)}: give a text", option=option, text_index=index
        )
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        message = f"{what} is not valid UTF-8 at byte {error.start}"
        raise InvalidInput(message, option=option, text_index=index) from None


def _filled(translation: Translation, each: int) -> list[Translation]:
    """Returns a translation with its alternatives; copies fill up the requested number."""
    rows = [translation, *translation.alternatives]
    return rows + [replace(translation, finish_reason=REPEATED)] * (each - len(rows))


def _outputs(
    request: Inference,
    rows: Sequence[Assessed],
    options: Mapping[str, Any],
    shape: Sequence[int],
) -> Outputs:
    """Returns the outputs of translations or scores, as the engine sends them."""
    due = requested_outputs({name: value for name, value in options.items() if name in OPTIONS})
    tensors = []
    for output in OUTPUTS.values():
        if request.model not in output.models or (
            request.outputs and output.name not in request.outputs
        ):
            continue
        is_due = output.name in due or request.model in output.always
        if not (is_due or output.if_any):
            continue
        values = [getattr(row, output.field) for row in rows]
        if any(values) if output.if_any else is_due:
            codec = output.codec
            if codec.form:
                values = [None if value is None else codec.as_json(value) for value in values]
            datatype = DataType[codec.datatype]
            elements = codec.elements(values)
            if datatype is DataType.BYTES:
                elements = [text.encode() for text in elements]
            tensors.append(Tensor.of(output.name, datatype, tuple(shape), elements))
    return tensors


def _described(info: ServerInfo) -> bytes:
    """Returns the JSON of the model `info`."""
    described = asdict(info) | {"options": list(info.options.values()), "metrics_port": None}
    return msgspec.json.encode(described)


def _late(timeout_s: float | None) -> DeadlineExceeded:
    return DeadlineExceeded(f"no answer within {timeout_s:g} s")
