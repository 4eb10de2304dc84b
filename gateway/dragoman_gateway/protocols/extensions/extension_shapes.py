"""The requests and answers of browser extensions.

Source: https://immersivetranslate.com/docs/services/custom/ for Immersive Translate; the code of
KISS Translator (https://github.com/fishjar/kiss-translator, src/apis/trans.js) for its custom
service and for Google's, which has no documentation
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dragoman_options.table import AUTO

from dragoman_gateway.core.errors import InvalidInput
from dragoman_gateway.web.fields import Fields
from dragoman_gateway.web.requests import GatewayRequest

_MOST_SHOWN = 40


@dataclass(frozen=True)
class Work:
    """The texts of a request.

    Attributes:
        texts: the texts.
        source: code of their language as written, or "auto".
        target: code of the target language as written.
        is_html: whether the texts are HTML.
        fields: fields of the request, on which the form of the answer may depend.
    """

    texts: Sequence[str]
    source: str
    target: str
    is_html: bool = False
    fields: Fields = field(default_factory=lambda: Fields({}))


@dataclass(frozen=True)
class Answer:
    """A translation, and the language of its text."""

    text: str
    source: str


@dataclass(frozen=True)
class Shape:
    """A protocol.

    Attributes:
        path: its path.
        methods: its methods.
        read: reads a request; raises `InvalidInput`.
        write: makes the answer's JSON.
    """

    path: str
    methods: Sequence[str]
    read: Callable[[GatewayRequest], Awaitable[Work]]
    write: Callable[[Work, Sequence[Answer]], Any]


def _work(fields: Fields, texts: str, source: str, target: str) -> Work:
    """Reads a request from fields with these names."""
    if (given := fields.texts(texts)) is None:
        raise InvalidInput(f"{texts} is missing: give the texts to translate")
    return Work(given, fields.text(source) or AUTO, fields.text(target) or "", fields=fields)


async def _immersive(request: GatewayRequest) -> Work:
    return _work(Fields(await request.read_fields()), "text_list", "source_lang", "target_lang")


async def _google(request: GatewayRequest) -> Work:
    fields = Fields(await request.read_fields())
    form = fields.text("format") or "text"
    if form not in ("text", "html"):
        raise InvalidInput(f"format {form[:_MOST_SHOWN]!r} is not supported: give text or html")
    return replace(_work(fields, "q", "sl", "tl"), is_html=form == "html")


async def _kiss(request: GatewayRequest) -> Work:
    fields = await request.read_fields()
    # Up to version 1.9 the extension sends one text.
    name = "text" if "text" in fields and "texts" not in fields else "texts"
    return _work(Fields(fields), name, "from", "to")


async def _wt_lib(request: GatewayRequest) -> Work:
    """Reads `[[texts, source, target], client]`."""
    (texts, source, target), _ = request.read_json(tuple[tuple[list[str], str, str], str])
    named = Fields({"text": texts, "source": source, "target": target})
    return Work(
        named.texts("text") or [], named.text("source") or AUTO, named.text("target") or "", True
    )


def _written_kiss(work: Work, answers: Sequence[Answer]) -> Any:
    if isinstance(work.fields.get("text"), str) and work.fields.get("texts") is None:
        (answer,) = answers
        return {"text": answer.text, "from": answer.source, "to": work.target}
    return [{"text": answer.text, "src": answer.source} for answer in answers]


def _written_immersive(_work: Work, answers: Sequence[Answer]) -> Any:
    rows = [{"detected_source_lang": answer.source, "text": answer.text} for answer in answers]
    return {"translations": rows}


def _written_single(work: Work, answers: Sequence[Answer]) -> Any:
    """One sentence for the whole text: some clients join sentences with spaces."""
    source = answers[0].source if answers else AUTO
    pairs = [(answer.text, text) for answer, text in zip(answers, work.texts, strict=True)]
    if str(work.fields.get("dj")) == "1":
        sentences = [{"trans": translation, "orig": text} for translation, text in pairs]
        return {"sentences": sentences, "src": source}
    return [pairs, None, source]


def _written_t(work: Work, answers: Sequence[Answer]) -> Any:
    if work.source == AUTO:
        return [(answer.text, answer.source) for answer in answers]
    return [answer.text for answer in answers]


def _written_wt_lib(_work: Work, answers: Sequence[Answer]) -> Any:
    return [[answer.text for answer in answers], [answer.source for answer in answers]]


_BOTH = ("GET", "POST")
SHAPES = (
    Shape("/immersive-translate", ("POST",), _immersive, _written_immersive),
    Shape("/kiss-translator", ("POST",), _kiss, _written_kiss),
    Shape("/translate_a/single", _BOTH, _google, _written_single),
    Shape("/translate_a/t", _BOTH, _google, _written_t),
    Shape("/v1/translateHtml", ("POST",), _wt_lib, _written_wt_lib),
)
"""The table of the protocols."""
