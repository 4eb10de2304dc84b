"""Endpoints for translation memories."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman_documents.memory.pairs import Pair
from starlette.datastructures import UploadFile
from starlette.responses import Response, StreamingResponse

from dragoman_gateway.core.errors import InvalidInput, WrongMediaType
from dragoman_gateway.protocols.own.answers import memory_answer
from dragoman_gateway.protocols.own.bodies import read_body, read_object
from dragoman_gateway.protocols.own.callers import counted_caller_of
from dragoman_gateway.protocols.own.replies import NO_STORE, location_of, reply
from dragoman_gateway.protocols.own.shapes import (
    ImportFields,
    MatchAnswer,
    MatchesAnswer,
    MemoriesAnswer,
    MemoryRequest,
    SearchRequest,
)
from dragoman_gateway.shared.gateway import Gateway
from dragoman_gateway.web.requests import MULTIPART, GatewayRequest, upload_of, while_connected

TMX = "application/x-tmx+xml"


class Memories:
    """Endpoints for translation memories; each counts as a request, but uses no characters."""

    def __init__(self, gateway: Gateway) -> None:
        """Store the core."""
        self._gateway, self._memories = gateway, gateway.memories

    async def create(self, request: GatewayRequest) -> Response:
        """Create a memory."""
        caller = await counted_caller_of(self._gateway, request)
        fields = read_body(request, MemoryRequest).fields
        served = await self._gateway.translations.languages()
        languages = (
            served.find(fields.source_language, served.sources, "source_language"),
            served.find(fields.target_language, served.targets, "target_language"),
        )
        memory = await self._memories.create(caller, fields.name, languages)
        headers = location_of(request, self._gateway.settings, memory.id)
        return reply(memory_answer(memory, request.request_id), 201, headers)

    async def all(self, request: GatewayRequest) -> Response:
        """Return the caller's memories."""
        memories = await self._memories.all(await counted_caller_of(self._gateway, request))
        return reply(MemoriesAnswer([*map(memory_answer, memories)], request.request_id))

    async def get(self, request: GatewayRequest) -> Response:
        """Return a memory."""
        memory = await self._memories.get(
            await counted_caller_of(self._gateway, request), request.path_params["id"]
        )
        return reply(memory_answer(memory, request.request_id))

    async def add(self, request: GatewayRequest) -> Response:
        """Add the segments of a file."""
        caller = await counted_caller_of(self._gateway, request)
        memory = await self._memories.get(caller, request.path_params["id"])
        if request.media_type != MULTIPART:
            raise WrongMediaType(f"send {MULTIPART} with the file in the field 'file'")
        form = await request.read_fields()
        file = form.pop("file", None)
        if not isinstance(file, UploadFile):
            raise InvalidInput("send one file, with its name, in the field 'file'")
        read_object(form, ImportFields)
        languages = memory.source_language, memory.target_language
        upload = upload_of(file)
        reading = self._gateway.readers.pairs(upload.path, upload.size_bytes, languages)

        async def work() -> Response:
            async with reading as read:

                async def pairs() -> Sequence[Pair]:
                    return (await read()).pairs

                changed = await self._memories.add(caller, memory.id, pairs)
            return reply(memory_answer(changed, request.request_id))

        self._gateway.imports.hold(caller.name)
        try:
            return await while_connected(request.receive, work())
        finally:
            self._gateway.imports.let_go(caller.name)

    async def tmx(self, request: GatewayRequest) -> Response:
        """Return a memory in TMX."""
        caller = await counted_caller_of(self._gateway, request)
        content = await self._memories.tmx(caller, request.path_params["id"])
        headers = {**NO_STORE, "content-disposition": 'attachment; filename="memory.tmx"'}
        return StreamingResponse(content, 200, headers, TMX)

    async def search(self, request: GatewayRequest) -> Response:
        """Return similar segments."""
        caller = await counted_caller_of(self._gateway, request)
        fields = read_body(request, SearchRequest).fields
        matches = await self._memories.search(
            caller, request.path_params["id"], fields.text, fields.min_similarity, fields.count
        )
        answers = [
            MatchAnswer(match.pair.source, match.pair.target, match.similarity) for match in matches
        ]
        return reply(MatchesAnswer(answers, request.request_id))

    async def delete(self, request: GatewayRequest) -> Response:
        """Delete a memory."""
        await self._memories.delete(
            await counted_caller_of(self._gateway, request), request.path_params["id"]
        )
        return Response(status_code=204, headers=NO_STORE)
