"""The operations of this API: the source of its endpoints and its OpenAPI document."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from dragoman_options.table import OPTIONS, SCORE, STREAM, TRANSLATE

from dragoman_gateway.protocols.own import shapes
from dragoman_gateway.protocols.own.about import About
from dragoman_gateway.protocols.own.live_text import LiveText
from dragoman_gateway.protocols.own.memory_storing import TMX, Memories
from dragoman_gateway.protocols.own.operation import EVENTS, FILE, Operation, Parameter
from dragoman_gateway.protocols.own.storing import CSV, MOST_WAIT_S, TSV, Documents, Glossaries
from dragoman_gateway.protocols.own.translating import Translating
from dragoman_gateway.web.endpoints import Handler
from dragoman_gateway.web.requests import JSON

_GLOSSARY = "3fa85f64-5717-4562-b3fc-2c963f66afa6"
_MEMORY = "8d1f6c1e-2b0e-4a34-9d5a-6f7f0c9a3b21"
_LIVE = "5d0c7f0a9be24f3c8a6e1b7d2c4f9e80"
_JOB = "0f3c8e1d5b7a4926a1d8c4e2f6b09753"

_GLOSSARY_ID = Parameter("id", "id of the glossary", _GLOSSARY, {"type": "string"})
_SOURCE = Parameter("source", "language of the source terms", "en", {"type": "string"})
_TARGET = Parameter("target", "language of the target terms", "de", {"type": "string"})
_DIRECTION = (_GLOSSARY_ID, _SOURCE, _TARGET)
_MEMORY_ID = Parameter("id", "id of the translation memory", _MEMORY, {"type": "string"})
_TMX_EXAMPLE = (
    '<tmx version="1.4"><header srclang="en"/><body><tu>'
    '<tuv xml:lang="en"><seg>Tea time</seg></tuv><tuv xml:lang="de"><seg>Teestunde</seg></tuv>'
    "</tu></body></tmx>"
)
_LIVE_ID = Parameter("id", "id of the session", _LIVE, {"type": "string"})
_JOB_ID = Parameter("id", "id of the document", _JOB, {"type": "string"})
_WAIT = Parameter(
    "wait_s",
    "how many seconds to wait until the document is done",
    "10",
    {"type": "number", "minimum": 0, "maximum": MOST_WAIT_S, "default": 0},
    in_query=True,
)
_TERMS = {"cup of tea": "Tasse Tee", "tea": "Tee"}
_FORMATS = (JSON, CSV, TSV)
_NOT_WITH_TAGS = ", ".join(f"`{name}`" for name in ("markup", *OPTIONS["markup"].not_with))


def operations(
    translating: Translating,
    live: LiveText,
    glossaries: Glossaries,
    memories: Memories,
    documents: Documents,
    about: About,
    openapi: Handler,
    reference: Handler,
) -> Sequence[Operation]:
    """Returns all operations, in the order of the reference page."""
    return (
        *_translation(translating),
        *_live(live),
        *_given_translations(translating),
        *_languages(translating, about),
        *_glossaries(glossaries),
        *_terms(glossaries),
        *_memories(memories),
        *_documents(documents),
        *_server(about, openapi, reference),
    )


def _translation(endpoints: Translating) -> Sequence[Operation]:
    new = partial(Operation, tag="Translation")
    return (
        new(
            "translate",
            "POST /translate",
            "Translate a text, or several",
            endpoints.translate,
            request=shapes.TranslateRequest,
            model=TRANSLATE,
            answer=shapes.TranslateAnswer,
            example={"text": ["Good morning.", "How are you?"], "target_language": "de"},
            help="The answer has a list of translations in the order of the texts, even for a "
            "single text. The request header `Cache-Control: no-store` means the same as "
            "`store: false`. Closing the connection cancels the request. A request with tags "
            f"(`format`) cannot have {_NOT_WITH_TAGS}, and cannot request scores or alignments.",
        ),
        new(
            "translateStream",
            "POST /translate/stream",
            "Translate a text as a stream",
            endpoints.stream,
            request=shapes.StreamRequest,
            model=STREAM,
            answer=shapes.StreamEvent,
            media_types=(EVENTS,),
            example={"text": "I would like a cup of coffee.", "target_language": "de"},
            help="Server-sent events: each is `data:` and a JSON object whose `text` is the "
            "stable prefix of the translation; the last one has a `finish_reason`. An error "
            "is sent as `event: error`. Lines that begin with a colon keep the connection alive. "
            "Close the connection to cancel.",
        ),
        new(
            "alternatives",
            "POST /alternatives",
            "Complete a translation from a position in several ways",
            endpoints.alternatives,
            request=shapes.AlternativesRequest,
            answer=shapes.AlternativesAnswer,
            example={
                "text": "I would like a cup of tea.",
                "target_language": "de",
                "prefix": "Ich",
                "count": 3,
            },
            help="The translations differ in the token after the prefix.",
        ),
    )


def _live(endpoints: LiveText) -> Sequence[Operation]:
    new = partial(Operation, tag="Live text")
    return (
        new(
            "createLive",
            "POST /live",
            "Create a session for a text that grows",
            endpoints.create,
            request=shapes.LiveRequest,
            model=TRANSLATE,
            answer=shapes.LiveAnswer,
            status=201,
            example={"source_language": "en", "target_language": "de"},
            help="For captions, dictation and typing. The same path is a WebSocket, whose first "
            "message is this object, with `key` if a key is required, and whose other messages "
            "are those of an update. A session without an update for five minutes is removed.",
        ),
        new(
            "updateLive",
            "POST /live/{id}",
            "Change the text of a session, and translate it",
            endpoints.update,
            request=shapes.LiveChange,
            answer=shapes.LiveTranslationAnswer,
            parameters=(_LIVE_ID,),
            example={"text": "I would like a cup of", "sequence": 1},
            help="Send whole words: the last one is translated as it is. Words that were shown do "
            "not change, except the last ones that `revise` allows.",
        ),
        new(
            "deleteLive",
            "DELETE /live/{id}",
            "Delete a session",
            endpoints.delete,
            status=204,
            parameters=(_LIVE_ID,),
        ),
    )


def _given_translations(endpoints: Translating) -> Sequence[Operation]:
    new = partial(Operation, tag="Translation")
    return (
        new(
            "score",
            "POST /score",
            "Score given translations",
            endpoints.score,
            request=shapes.ScoreRequest,
            model=SCORE,
            answer=shapes.ScoreAnswer,
            example={"text": "Good morning.", "target": "Guten Morgen.", "target_language": "de"},
        ),
        new(
            "alignments",
            "POST /alignments",
            "Align the words of given translations",
            endpoints.alignments,
            request=shapes.ScoreRequest,
            model=SCORE,
            answer=shapes.AlignmentsAnswer,
            example={"text": "Good morning.", "target": "Guten Morgen.", "target_language": "de"},
            help="Hard alignments unless `return_alignments` is `soft`.",
        ),
        new(
            "attention",
            "POST /attention",
            "Show the attention weights of a sentence, as a page",
            request=shapes.AttentionRequest,
            model=TRANSLATE,
            media_types=("text/html",),
            example={"text": "Good morning.", "target_language": "de"},
        ),
    )


def _languages(translating: Translating, about: About) -> Sequence[Operation]:
    new = partial(Operation, tag="Languages")
    return (
        new(
            "languages",
            "GET /languages",
            "List source languages with their target languages",
            about.languages,
            answer=shapes.LanguagesAnswer,
            needs_key=False,
        ),
        new(
            "detect",
            "POST /detect",
            "Detect the languages of texts",
            translating.detect,
            request=shapes.DetectRequest,
            answer=shapes.DetectAnswer,
            example={"text": ["Guten Morgen, wie geht es dir?", "Good morning, how are you?"]},
            help="Counts as a request, but uses no characters.",
        ),
    )


def _glossaries(endpoints: Glossaries) -> Sequence[Operation]:
    new = partial(Operation, tag="Glossaries")
    return (
        new(
            "createGlossary",
            "POST /glossaries",
            "Create a glossary",
            endpoints.create,
            request=shapes.GlossaryRequest,
            answer=shapes.GlossaryAnswer,
            status=201,
            example={
                "name": "Drinks",
                "dictionaries": [
                    {"source_language": "en", "target_language": "de", "entries": _TERMS}
                ],
            },
            help="To use it, set its id in `glossary_ids`.",
        ),
        new(
            "glossaries",
            "GET /glossaries",
            "Your glossaries, oldest first",
            endpoints.all,
            answer=shapes.GlossariesAnswer,
        ),
        new(
            "glossary",
            "GET /glossaries/{id}",
            "A glossary, without its terms",
            endpoints.get,
            answer=shapes.GlossaryAnswer,
            parameters=(_GLOSSARY_ID,),
        ),
        new(
            "renameGlossary",
            "PATCH /glossaries/{id}",
            "Rename a glossary",
            endpoints.rename,
            request=shapes.RenameRequest,
            answer=shapes.GlossaryAnswer,
            parameters=(_GLOSSARY_ID,),
            example={"name": "Hot drinks"},
        ),
        new(
            "deleteGlossary",
            "DELETE /glossaries/{id}",
            "Delete a glossary",
            endpoints.delete,
            status=204,
            parameters=(_GLOSSARY_ID,),
        ),
    )


def _terms(endpoints: Glossaries) -> Sequence[Operation]:
    new = partial(Operation, tag="Glossaries")
    dictionary = "/glossaries/{id}/dictionaries/{source}/{target}"
    return (
        new(
            "terms",
            f"GET {dictionary}",
            "The terms of a direction",
            endpoints.entries,
            parameters=_DIRECTION,
            media_types=_FORMATS,
            help="The header `Accept` chooses between JSON, CSV and TSV.",
        ),
        new(
            "replaceTerms",
            f"PUT {dictionary}",
            "Set the terms of a direction",
            endpoints.replace,
            answer=shapes.GlossaryAnswer,
            parameters=_DIRECTION,
            accepts=_FORMATS,
            example=_TERMS,
        ),
        new(
            "mergeTerms",
            f"PATCH {dictionary}",
            "Add terms to those of a direction",
            endpoints.merge,
            answer=shapes.GlossaryAnswer,
            parameters=_DIRECTION,
            accepts=_FORMATS,
            example={"coffee": "Kaffee"},
            help="An existing source term gets the new target term.",
        ),
        new(
            "deleteTerms",
            f"DELETE {dictionary}",
            "Delete the terms of a direction",
            endpoints.delete_entries,
            status=204,
            parameters=_DIRECTION,
        ),
    )


def _memories(endpoints: Memories) -> Sequence[Operation]:
    new = partial(Operation, tag="Translation memories")
    return (
        new(
            "createMemory",
            "POST /memories",
            "Create a translation memory",
            endpoints.create,
            request=shapes.MemoryRequest,
            answer=shapes.MemoryAnswer,
            status=201,
            example={"name": "Manuals", "source_language": "en", "target_language": "de"},
            help="To use it, set its id as `memory_id`.",
        ),
        new(
            "memories",
            "GET /memories",
            "Your translation memories, oldest first",
            endpoints.all,
            answer=shapes.MemoriesAnswer,
        ),
        new(
            "memory",
            "GET /memories/{id}",
            "A translation memory",
            endpoints.get,
            answer=shapes.MemoryAnswer,
            parameters=(_MEMORY_ID,),
        ),
        new(
            "importMemory",
            "POST /memories/{id}/import",
            "Add the segments of a file to a translation memory",
            endpoints.add,
            request=shapes.ImportFields,
            answer=shapes.MemoryAnswer,
            parameters=(_MEMORY_ID,),
            accepts=("multipart/form-data",),
            file=("memory.tmx", _TMX_EXAMPLE),
            example={},
            reads_body=True,
            help="A form with a file of TMX, XLIFF, Qt ts or PO in the field `file`. All of its "
            "segments are added, or none. A segment with the same text and the same neighbours "
            "gets the new translation.",
        ),
        new(
            "exportMemory",
            "GET /memories/{id}/tmx",
            "A translation memory in TMX 1.4",
            endpoints.tmx,
            parameters=(_MEMORY_ID,),
            media_types=(TMX,),
        ),
        new(
            "searchMemory",
            "POST /memories/{id}/search",
            "Find similar segments",
            endpoints.search,
            request=shapes.SearchRequest,
            answer=shapes.MatchesAnswer,
            parameters=(_MEMORY_ID,),
            example={"text": "Tea times", "min_similarity": 75},
        ),
        new(
            "deleteMemory",
            "DELETE /memories/{id}",
            "Delete a translation memory",
            endpoints.delete,
            status=204,
            parameters=(_MEMORY_ID,),
        ),
    )


def _documents(endpoints: Documents) -> Sequence[Operation]:
    new = partial(Operation, tag="Documents")
    return (
        new(
            "submitDocument",
            "POST /documents",
            "Translate a document in the background",
            endpoints.submit,
            request=shapes.DocumentFields,
            model=TRANSLATE,
            answer=shapes.JobAnswer,
            status=202,
            accepts=("multipart/form-data",),
            example={"target_language": "de"},
            reads_body=True,
            help="A form with the document in the field `file`, and options in other fields: "
            "switches as `true` or `false`, terms as JSON. `/info` has the formats. A "
            "document that does not have its format is refused.",
        ),
        new(
            "documents",
            "GET /documents",
            "Your documents, newest first",
            endpoints.all,
            answer=shapes.JobsAnswer,
        ),
        new(
            "document",
            "GET /documents/{id}",
            "The progress of a document",
            endpoints.get,
            answer=shapes.JobAnswer,
            parameters=(_JOB_ID, _WAIT),
        ),
        new(
            "documentResult",
            "GET /documents/{id}/result",
            "The translated document",
            endpoints.result,
            parameters=(_JOB_ID,),
            media_types=(FILE,),
            help="503 with `Retry-After` until it is done.",
        ),
        new(
            "deleteDocument",
            "DELETE /documents/{id}",
            "Cancel a document, and delete its files",
            endpoints.delete,
            status=204,
            parameters=(_JOB_ID,),
        ),
    )


def _server(about: About, openapi: Handler, reference: Handler) -> Sequence[Operation]:
    new = partial(Operation, tag="Server")
    return (
        new(
            "info",
            "GET /info",
            "Version, models, options, limits and features",
            about.info,
            answer=shapes.InfoAnswer,
            needs_key=False,
        ),
        new(
            "health",
            "GET /health",
            "Whether the server can translate now",
            about.health,
            answer=shapes.HealthAnswer,
            needs_key=False,
            help="503 if it cannot.",
        ),
        new(
            "usage",
            "GET /usage",
            "Your usage in this month",
            about.usage,
            answer=shapes.UsageAnswer,
        ),
        new(
            "openapi",
            "GET /openapi.json",
            "This API as an OpenAPI 3.1 document",
            openapi,
            needs_key=False,
        ),
        new(
            "docs",
            "GET /docs",
            "This API as a page for people",
            reference,
            media_types=("text/html",),
            needs_key=False,
        ),
    )
