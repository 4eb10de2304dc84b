"""Recognises translation requests in messages that are written for language models.

Programs that let a language model translate put the text into a prompt. Only the prompts in the
table of docs/chat.md are recognised: anything else could be a question, or a text to translate.

Source: the programs' own repositories, named beside each shape
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

_MOST_HEAD = 8000
"""Characters before a text in which instructions are looked for."""
_MOST_LINE = 300
"""Characters of an instruction in one line."""
_LANGUAGE = r"[^\W\d_][\w() -]{1,39}"
_ASKS = (
    r"translat(?:e|es|ing)\b(?: [\w'-]+){0,8}?"
    rf"(?: from (?P<source>{_LANGUAGE}?))? (?:in)?to (?P<target>{_LANGUAGE})"
)
_INSTRUCTION = re.compile(rf"(?:please )?{_ASKS}(?:[.,][^\n:]*)?[.:]?", re.IGNORECASE)
"""An instruction that is alone in its line, or before a colon."""
_SYSTEM = (
    # Weblate 5.0 to 5.14, weblate/machinery/openai.py
    re.compile(
        r"from language '(?P<source>[^'\n]{2,40})'\s{1,4}to language '(?P<target>[^'\n]{2,40})'"
    ),
    # LangChain's examples, and instructions that people write
    re.compile(rf"\b{_ASKS}", re.IGNORECASE),
)
_SEPARATOR = "\n==WEBLATE_PART==\n"
_KEPT = re.compile(r"@@PH\d{1,6}@@|\[X\d{1,6}X\]")
"""Weblate's placeholders, which the engine does not know as such."""


@dataclass(frozen=True)
class Prompt:
    """A translation request in a message.

    Attributes:
        texts: the texts to translate.
        source: the source language, as a code or an English name, perhaps with more words after
            it; None: not named.
        target: the target language, likewise.
        write: writes the answer with the translations of the texts.
        terms: the translations that parts of the texts must have.
        is_json: whether the answer is JSON.
    """

    texts: Sequence[str]
    source: str | None = None
    target: str | None = None
    write: Callable[[Sequence[str]], str] = "".join
    terms: Mapping[str, str] = field(default_factory=dict)
    is_json: bool = False


@dataclass(frozen=True)
class _Shape:
    """A prompt with instructions before the text.

    Attributes:
        names: finds the languages in the instructions.
        begin: what is between the instructions and the text.
        end: what is after the text.
    """

    names: re.Pattern[str]
    begin: str
    end: str = ""


_SHAPES = (
    # pdf2zh, pdf2zh/translator.py
    _Shape(
        re.compile(
            r"Translate the following (?:markdown )?source text to (?P<target>[^.\n]{2,40})\."
        ),
        "\n\nSource Text: ",
        "\n\nTranslated Text:",
    ),
    # BabelDOC, babeldoc/translator/translator.py, and pdf2zh-next
    _Shape(
        re.compile(
            r"Treat next line as plain text input and translate it into (?P<target>[^,\n]{2,40}),"
        ),
        " Input:\n\n",
    ),
    # TranslateGemma's own prompt, as Ollama's clients write it
    _Shape(
        re.compile(
            r"Please translate the following (?P<source>[^\n]{2,40}?) text "
            r"into (?P<target>[^\n]{2,40})$"
        ),
        ":\n\n\n",
    ),
)
_BATCH = _Shape(  # BabelDOC, babeldoc/format/pdf/document_il/midend/il_translator_llm_only.py
    re.compile(r"Translate ALL human-readable content into (?P<target>[^.\n]{2,40})\."),
    "## Here is the input:\n\n",
)


def read_prompt(system: str, content: str, names_language: Callable[[str], bool]) -> Prompt | None:
    """Recognise a translation request.

    Args:
        system: the instructions before the conversation; may be empty.
        content: the user's message.
        names_language: whether words begin with the name of a language. Instructions in a
            program's own words are recognised only then.

    Returns:
        None if neither has instructions to translate. If only `system` has, the whole message is
        the text.
    """
    if content[:1] == "{" and (prompt := _strings_of_weblate(content)) is not None:
        return prompt
    if (prompt := _paragraphs_of_babeldoc(content)) is not None:
        return prompt
    for shape in _SHAPES:
        if (parts := _split(shape, content)) is not None:
            (source, target), text = parts
            return Prompt([text.removesuffix(shape.end)], source, target)
    prompt = _instruction(content) or _of_system(system, content)
    return prompt if prompt is not None and names_language(prompt.target or "") else None


def _split(shape: _Shape, content: str) -> tuple[tuple[str | None, str | None], str] | None:
    """Returns the languages of a prompt, and what follows its instructions."""
    at = content.find(shape.begin, 0, _MOST_HEAD)
    if at < 0 or (names := shape.names.search(content[:at])) is None:
        return None
    return _languages(names), content[at + len(shape.begin) :]


def _languages(names: re.Match[str]) -> tuple[str | None, str | None]:
    groups = names.groupdict()
    return groups.get("source"), groups.get("target")


def _instruction(content: str) -> Prompt | None:
    """Reads `Translate this from English to German: TEXT`, also in separate lines."""
    line = content[:_MOST_LINE].partition("\n")[0]
    ends = [len(line)] if len(line) < len(content) else []
    if (colon := line.find(": ")) >= 0:
        ends.insert(0, colon + 1)
    for end in ends:
        if (names := _INSTRUCTION.fullmatch(line[:end].rstrip())) is not None:
            source, target = _languages(names)
            text = content[end:].lstrip(" \n")
            begin, label = f"{source}: ", f"\n{target}:"
            if text.startswith(begin) and text.endswith(label):  # as ALMA and Tower are asked
                text = text[len(begin) : -len(label)]
            return Prompt([text], source, target)
    return None


def _of_system(system: str, content: str) -> Prompt | None:
    """Reads instructions that are in the system message, before a message with only the text."""
    for pattern in _SYSTEM:
        if (names := pattern.search(system[:_MOST_HEAD])) is not None:
            source, target = _languages(names)
            texts = content.split(_SEPARATOR) if _SEPARATOR.strip() in system else [content]
            return Prompt(texts, source, target, _SEPARATOR.join, _placeholders(texts))
    return None


def _strings_of_weblate(content: str) -> Prompt | None:
    """Reads the object of Weblate 5.15 and later, weblate/machinery/llm.py."""
    try:
        given = msgspec.json.decode(content, type=_WeblateStrings)
    except (msgspec.DecodeError, RecursionError):
        return None
    texts = [string.source for string in given.strings]
    terms = given.glossary
    if isinstance(terms, list):
        terms = {term.source: term.target for term in terms}
    terms = {source: target for source, target in terms.items() if source and target}
    return Prompt(
        texts,
        given.source_language,
        given.target_language,
        _as_json,
        terms | _placeholders(texts),
        is_json=True,
    )


def _paragraphs_of_babeldoc(content: str) -> Prompt | None:
    """Reads a prompt with a list of paragraphs with ids."""
    if (parts := _split(_BATCH, content)) is None:
        return None
    (source, target), written = parts
    try:
        given = msgspec.json.decode(written, type=list[_Paragraph])
    except (msgspec.DecodeError, RecursionError):
        return None

    def write(translations: Sequence[str]) -> str:
        return _as_json(
            [
                {"id": paragraph.id, "output": translation}
                for paragraph, translation in zip(given, translations, strict=True)
            ]
        )

    texts = [paragraph.input for paragraph in given]
    return Prompt(texts, source, target, write, is_json=True)


class _WeblateString(msgspec.Struct):
    source: str


class _WeblateTerm(msgspec.Struct):
    source: str
    target: str = ""


class _WeblateStrings(msgspec.Struct):
    source_language: str
    target_language: str
    strings: list[_WeblateString]
    glossary: dict[str, str] | list[_WeblateTerm] = []


class _Paragraph(msgspec.Struct):
    id: int | str
    input: str


def _placeholders(texts: Sequence[str]) -> dict[str, str]:
    return {placeholder: placeholder for text in texts for placeholder in _KEPT.findall(text)}


def _as_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
