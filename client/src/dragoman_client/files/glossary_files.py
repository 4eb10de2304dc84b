"""Reads and writes glossaries as CSV, TSV and JSON, and reads TBX."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast, get_args

from dragoman_documents.core.languages import is_same_language, names_language
from dragoman_documents.xml.xml_tokens import XmlTokens

from dragoman_client.core.access import FilePath

GlossaryForm = Literal["csv", "tsv", "json"]
"""`csv` and `tsv` have a source and a target term on each line; `json` is an object of terms."""

ReadableForm = GlossaryForm | Literal["tbx"]
"""`tbx` is TBX-Basic, of version 2 or 3: XML with the terms of several languages."""
Languages = tuple[str | None, str | None]
"""Source and target language of terms."""

_ENDINGS: Mapping[str, ReadableForm] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".json": "json",
    ".tbx": "tbx",
}
_CONCEPTS = ("termEntry", "conceptEntry")
_LANGUAGES = ("langSet", "langSec")
_LINE_BREAK = re.compile(r"\r\n|[\r\n]")
"""Not those of `str.splitlines`: a term may contain U+2028 and the like."""
_SIDES = 2
_WITH_LANGUAGES = 4
"""Columns of DeepL's CSV; the last two are the languages."""
_LINE_NUMBERS = {"csv": "line", "tsv": "line", "json": "entry"}


def read_glossary(
    file: FilePath, form: ReadableForm | None = None, languages: Languages = (None, None)
) -> dict[str, str]:
    """Read a glossary from a file.

    Args:
        file: a file in UTF-8; TBX names its encoding.
        form: the format; None: according to the file's extension, or else its content.
        languages: see `parse_glossary`.

    Returns:
        Target terms by source term, without surrounding white space, in the order of the file.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file does not have the format; the message names the file and the line.
    """
    path = Path(file)
    form = form or _ENDINGS.get(path.suffix.lower())
    try:
        return parse_glossary(path.read_bytes(), form, languages)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def parse_glossary(
    content: str | bytes, form: ReadableForm | None = None, languages: Languages = (None, None)
) -> dict[str, str]:
    """Parse a glossary.

    Args:
        content: text or its UTF-8 bytes, with or without a byte order mark.
        form: the format; None: JSON if the content begins with a brace, TBX if with an XML
            declaration, TSV if the first line has a tab, else CSV.
        languages: source and target language in TBX; None: the first ones. Of several terms for a
            concept the first one counts as its translation.

    Returns:
        Target terms by source term, without surrounding white space, in the order of the content.

    Raises:
        ValueError: the content does not have the format, a term is empty, or a source term has two
            target terms; the message names the line.
    """
    if form == "tbx" or (form is None and content.lstrip()[:5] in ("<?xml", b"<?xml")):
        return _tbx_terms(content, languages)
    text = _decoded(content).removeprefix("\ufeff")
    form = form or _form_of(text)
    if form not in get_args(GlossaryForm):
        raise ValueError(f"form is {form!r}: give csv, tsv, json or tbx")
    rows = {"csv": _csv_rows, "tsv": _tsv_rows, "json": _json_rows}[form]
    terms: dict[str, str] = {}
    for number, source, target in rows(text):
        source, target = source.strip(), target.strip()
        where = f"{_LINE_NUMBERS[form]} {number}"
        if not source or not target:
            raise ValueError(f"{where}: the {'target' if source else 'source'} term is empty")
        if terms.setdefault(source, target) != target:
            raise ValueError(f"{where}: {source[:50]!r} has two target terms: remove one")
    return terms


def format_glossary(terms: Mapping[str, str], form: GlossaryForm) -> str:
    """Format a glossary so that `parse_glossary` can read it.

    Args:
        terms: target terms by source term, without surrounding white space.
        form: the format; in TSV, a tab or a line break in a term becomes a space.
    """
    if form == "json":
        return json.dumps(dict(terms), ensure_ascii=False, indent=1) + "\n"
    if form == "tsv":
        return "".join(f"{_in_a_cell(src)}\t{_in_a_cell(tgt)}\n" for src, tgt in terms.items())
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(terms.items())
    return written.getvalue()


def _decoded(content: str | bytes) -> str:
    if isinstance(content, str):
        return content
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {line}: not valid UTF-8") from None


def _form_of(text: str) -> GlossaryForm:
    begin = text.lstrip()
    if begin.startswith("{"):
        return "json"
    return "tsv" if "\t" in begin.partition("\n")[0] else "csv"


def _tsv_rows(text: str) -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(_LINE_BREAK.split(text), start=1):
        if line.strip():
            columns = line.split("\t")
            if len(columns) != _SIDES:
                raise ValueError(f"line {number}: not a source term, a tab and a target term")
            yield number, columns[0], columns[1]


def _csv_rows(text: str) -> Iterator[tuple[int, str, str]]:
    # Spreadsheets in most of Europe use semicolons.
    first = text.lstrip().partition("\n")[0]
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=";" if ";" in first and "," not in first else ",",
        strict=True,
    )
    try:
        for columns in reader:
            if not any(column.strip() for column in columns):
                continue
            if len(columns) not in (_SIDES, _WITH_LANGUAGES):
                raise ValueError(
                    f"line {reader.line_num}: not a source term, a comma and a target term; "
                    "put a term with a comma in quotation marks"
                )
            yield reader.line_num, columns[0], columns[1]
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num}: {error}") from error


def _json_rows(text: str) -> Iterator[tuple[int, str, str]]:
    try:
        pairs = json.loads(text, object_pairs_hook=list)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not valid JSON: {error}") from error
    if not text.lstrip().startswith("{"):
        raise ValueError('not an object of terms, such as {"tea": "Tee"}')
    for number, (source, target) in enumerate(cast("list[tuple[str, Any]]", pairs), start=1):
        if not isinstance(target, str):
            raise ValueError(f"entry {number}: the target term of {source[:50]!r} is not text")
        yield number, source, target


def _tbx_terms(content: str | bytes, languages: Languages) -> dict[str, str]:
    source, target = (tag if names_language(tag) else None for tag in languages)
    translations: dict[str, str] = {}
    for concept in _tbx_concepts(content):
        source = source or next(iter(concept))
        others = (language for language in concept if not is_same_language(language, source))
        target = target or next(others, None)
        targets = _terms_in(concept, target)
        for term in _terms_in(concept, source) if targets else ():
            translations.setdefault(term, targets[0])
    if not translations:
        named = " and ".join(filter(None, languages)) or "two languages"
        raise ValueError(f"TBX without terms in {named}")
    return translations


def _terms_in(concept: Mapping[str, Sequence[str]], language: str | None) -> list[str]:
    return [
        term
        for code, terms in concept.items()
        if is_same_language(code, language or "")
        for term in terms
    ]


def _tbx_concepts(content: str | bytes) -> Iterator[dict[str, list[str]]]:
    """Yields the terms of each concept by language."""
    tokens = XmlTokens("utf-8" if isinstance(content, str) else None)
    written = content.encode("utf-8", "replace") if isinstance(content, str) else content
    concept: dict[str, list[str]] = {}
    language = ""
    term: list[str] | None = None
    """The parts of the open term; None: outside terms."""
    for token in (*tokens.feed(written), *tokens.close()):
        name = token.name.rpartition(":")[2]
        if token.kind == "start" and name in _LANGUAGES:
            language = token.attributes.get("xml:lang", "")
        elif name == "term" and token.kind == "start":
            term = []
        elif name == "term" and token.kind == "end":
            if words := " ".join("".join(term or ()).split()):
                concept.setdefault(language, []).append(words)
            term = None
        elif name in _CONCEPTS and token.kind == "end":
            if concept:
                yield concept
            concept = {}
        elif term is not None and token.kind in ("text", "cdata", "entity"):
            term.append(token.text)


def _in_a_cell(term: str) -> str:
    return _LINE_BREAK.sub(" ", term.replace("\t", " "))
