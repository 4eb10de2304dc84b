"""The formats of files: how each is recognized, and what reads it.

`FORMATS` is the only list of them: the command line, the client, the gateway and its protocols, the
page and the documentation take their lists from it. Running text (`Document`) and files of lines
(`LineFormat`) are not among them, since they cannot be recognized.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final, Literal, Protocol, Self

from dragoman_documents.core.segments import Raw, Segment
from dragoman_documents.office.package_reader import PackageReader
from dragoman_documents.office.packages import PackageName

from dragoman_client.files.compressed_files import compression_of

FormatName = Literal[
    "html",
    "xliff",
    "xml",
    PackageName,
    "srt",
    "vtt",
    "markdown",
    "properties",
    "strings",
    "csv",
    "po",
    "json",
    "yaml",
]
"""Names of the formats that can be translated. `xml` stands for all XML, such as XHTML, DocBook,
SVG, RESX, Android strings, Qt ts and TMX."""

_OPEN_DOCUMENT: Final = b"mimetypeapplication/vnd.oasis.opendocument."
_NO_PICTURE: Final = "translate its text instead"
_ARCHIVE: Final = b"PK\x03\x04"
_BEGINS_TAG: Final = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*+<")
_UTF_16_BEGINS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, b"<\0", b"\0<")


class Reader(Protocol):
    """Reads a document in chunks."""

    @property
    def warnings(self) -> Sequence[str]:
        """What the reader ignored, or found in translations, so far.

        Complete when all parts are written; the messages quote the document.
        """
        ...

    def feed(self, chunk: bytes) -> list[Raw | Segment]:
        """Read the next chunk."""
        ...

    def close(self) -> Iterable[Raw | Segment]:
        """Returns the remaining parts."""
        ...


@dataclass(frozen=True)
class Reading:
    """What readers need to know besides the document.

    Attributes:
        source_language: language of the document, if known; text that is declared to be in another
            language is not translated.
        target_language: language of the translation; files that hold it need it.
        columns: names of the columns of a table to translate.
        titles: whether to translate the title among a document's properties.
    """

    source_language: str | None = None
    target_language: str | None = None
    columns: tuple[str, ...] = ()
    titles: bool = False

    @classmethod
    def of(
        cls, options: Mapping[str, Any], columns: Sequence[str] = (), titles: bool = False
    ) -> Self:
        """Take the languages from the options of a translation."""
        source, target = options.get("source_language"), options.get("target_language")
        return cls(source, target, tuple(columns), titles)


def _package(name: PackageName, title: str, endings: Sequence[str], hint: bytes) -> ReadableFormat:
    """Returns the format of a package."""
    return ReadableFormat(
        name=name,
        title=title,
        endings=tuple(endings),
        begins=lambda begin: begin.startswith(_ARCHIVE) and hint in begin,
        is_package=True,
    )


def _begins_xliff(begin: bytes) -> bool:
    return _begins_xml(begin) and b"<xliff" in begin


def _begins_xml(begin: bytes) -> bool:
    return begin.lstrip().startswith((b"<?xml", b"<xliff"))


@dataclass(frozen=True, kw_only=True)
class FileFormat:
    """A format of files.

    Attributes:
        title: its name in messages.
        endings: extensions of its files, in lower case.
        begins: tells by the first bytes, in UTF-8 without a byte order mark, whether a file has
            the format; None: it is recognized by its name only.
    """

    title: str
    endings: tuple[str, ...] = ()
    begins: Callable[[bytes], object] | None = None


@dataclass(frozen=True, kw_only=True)
class ReadableFormat(FileFormat):
    """A format whose files can be translated.

    Attributes:
        name: its name in options, such as `--format`.
        is_package: whether it is a ZIP archive, which is read in any order.
        needs_columns: whether the columns to translate must be named.
    """

    name: FormatName
    is_package: bool = False
    needs_columns: bool = False


@dataclass(frozen=True, kw_only=True)
class RefusedFormat(FileFormat):
    """A format whose files cannot be translated.

    Attributes:
        instead: what to do instead.
        is_binary: whether it is not text, so that a line of it cannot be translated either.
    """

    instead: str = ""
    is_binary: bool = False


FORMATS: Final[tuple[FileFormat, ...]] = (
    RefusedFormat(
        title="an Apple property list",
        endings=(".plist", ".stringsdict"),
        begins=re.compile(rb"\A\s*+<\?xml[^>]*>\s*+<!DOCTYPE plist\b").match,
        instead="move its texts to a string catalogue (.xcstrings), as Xcode does",
    ),
    RefusedFormat(
        title="a flat OpenDocument file",
        endings=(".fodt", ".fods", ".fodp"),
        begins=re.compile(rb"\A\s*+<\?xml[^>]*>\s*+<office:document\b").match,
        instead="convert it by soffice --convert-to odt (or ods, odp)",
    ),
    ReadableFormat(
        name="html",
        title="HTML",
        endings=(".html", ".htm"),
        begins=re.compile(
            rb"\A(?:\s|<!--(?>.*?-->))*+<(?:!doctype html|(?:html|head|title|meta|body|main|header|"
            rb"nav|section|article|div|p|h[1-6]|ul|ol|dl|table|form|blockquote|a|b|i|em|strong|"
            rb"span|img)[\s/>])",
            re.DOTALL | re.IGNORECASE,
        ).match,
    ),
    ReadableFormat(
        name="xliff",
        title="XLIFF",
        endings=(".xliff", ".xlf", ".xlf2", ".sdlxliff"),
        begins=_begins_xliff,
    ),
    ReadableFormat(
        name="xml",
        title="XML",
        endings=(".xhtml", ".xml", ".svg", ".resx", ".ts", ".tmx", ".dita", ".docbook", ".dbk"),
        begins=_begins_xml,
    ),
    _package("docx", "DOCX", (".docx", ".docm", ".dotx", ".dotm"), b"word/"),
    _package("pptx", "PPTX", (".pptx", ".pptm", ".potx", ".potm", ".ppsx", ".ppsm"), b"ppt/"),
    _package("xlsx", "XLSX", (".xlsx", ".xlsm", ".xltx", ".xltm"), b"xl/"),
    _package("odt", "ODT", (".odt", ".ott"), _OPEN_DOCUMENT + b"text"),
    _package("ods", "ODS", (".ods", ".ots"), _OPEN_DOCUMENT + b"spreadsheet"),
    _package("odp", "ODP", (".odp", ".otp"), _OPEN_DOCUMENT + b"presentation"),
    _package("epub", "EPUB", (".epub",), b"mimetypeapplication/epub+zip"),
    ReadableFormat(
        name="srt",
        title="SubRip subtitles",
        endings=(".srt",),
        begins=re.compile(rb"\A\s*+\d+[ \t]*\r?\n\d+:\d\d:\d\d[,.]\d+ *--> *\d").match,
    ),
    ReadableFormat(
        name="vtt",
        title="WebVTT subtitles",
        endings=(".vtt",),
        begins=re.compile(rb"\AWEBVTT(?:[ \t\r\n]|$)").match,
    ),
    ReadableFormat(name="markdown", title="Markdown", endings=(".md", ".markdown")),
    ReadableFormat(
        name="properties",
        title="Java properties",
        endings=(".properties",),
    ),
    ReadableFormat(
        name="strings",
        title="Apple strings",
        endings=(".strings",),
        begins=re.compile(rb'\A(?:/\*.*?\*/|\s)*+"(?:[^"\\\n]|\\.)*+" = "', re.DOTALL).match,
    ),
    ReadableFormat(
        name="csv",
        title="CSV",
        endings=(".csv", ".tsv"),
        needs_columns=True,
    ),
    RefusedFormat(
        title="SubStation Alpha subtitles",
        endings=(".ass", ".ssa"),
        begins=re.compile(rb"\A\[Script Info\]").match,
        instead="convert it to SubRip, for example with ffmpeg -i FILE FILE.srt",
    ),
    ReadableFormat(
        name="po",
        title="gettext PO",
        endings=(".po", ".pot"),
        begins=re.compile(rb'\A(?:#[^\n]*\n|\s)*+msg(?:id|ctxt) *"').match,
    ),
    ReadableFormat(
        name="json",
        title="JSON",
        endings=(".json", ".arb", ".xcstrings"),
        begins=re.compile(rb'\A\s*+(?:\[\s*+)*+(?:\{\s*+"(?:[^"\\\n]|\\.)*+"\s*+:|(?<=\[)")').match,
    ),
    ReadableFormat(
        name="yaml",
        title="YAML",
        endings=(".yaml", ".yml"),
        begins=re.compile(rb"\A(?:%YAML |---[ \t]*\r?\n[\w-]+:(?:\s|$))").match,
    ),
    RefusedFormat(
        title="reStructuredText",
        endings=(".rst",),
        instead="translate the PO files that Sphinx extracts: sphinx-build -b gettext",
    ),
    RefusedFormat(
        title="LaTeX",
        endings=(".tex",),
        begins=re.compile(rb"\A(?:%[^\n]*\n|\s)*+\\documentclass\b").match,
        instead="translate the PO files that po4a extracts, or convert it to Markdown with pandoc",
    ),
    RefusedFormat(
        title="INI",
        endings=(".ini",),
        begins=re.compile(rb"\A\[[\w. -]+\]\r?\n[\w. -]+ ?=").match,
    ),
    RefusedFormat(title="TOML", endings=(".toml",)),
    *(
        RefusedFormat(
            title=title,
            endings=endings,
            begins=re.compile(re.escape(signature)).match,
            instead=instead,
            is_binary=True,
        )
        for title, endings, signature, instead in (
            ("a ZIP archive", (".zip",), _ARCHIVE, "unpack it, and translate its files"),
            (
                "a PDF",
                (".pdf",),
                b"%PDF-",
                "translate the document that it was made from, or convert it to DOCX",
            ),
            (
                "an old Office document, or one with a password",
                (".doc", ".xls", ".ppt"),
                b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
                "convert it by soffice --convert-to docx (or xlsx, pptx), or save it without the "
                "password",
            ),
            (
                "an RTF document",
                (".rtf",),
                rb"{\rtf",
                "convert it by soffice --convert-to docx",
            ),
            ("a PNG picture", (".png",), b"\x89PNG\r\n\x1a\n", _NO_PICTURE),
            ("a JPEG picture", (".jpg", ".jpeg"), b"\xff\xd8\xff", _NO_PICTURE),
        )
    ),
)
"""All known formats. If the name of a file does not tell its format, it has the first one here
whose beginning it has."""
READABLE: Final[Mapping[str, ReadableFormat]] = {
    form.name: form for form in FORMATS if isinstance(form, ReadableFormat)
}
"""The formats that can be translated, by name."""
_BY_ENDING: Final = {ending: form for form in FORMATS for ending in form.endings}
_BINARY: Final = [form for form in FORMATS if isinstance(form, RefusedFormat) and form.is_binary]
DOCUMENT_ENDINGS: Final = (
    ".txt",
    *(ending for form in READABLE.values() if not form.needs_columns for ending in form.endings),
)
"""Extensions of all files that can be translated without more than languages."""
TABLE_ENDINGS: Final = READABLE["csv"].endings
"""Extensions of tables, whose columns to translate must be named."""


def format_of(name: str, begin: bytes = b"") -> FileFormat | None:
    """Returns the format of a file by its name, or else by its first bytes; None: unknown.

    Args:
        name: name of the file.
        begin: first bytes of the file.
    """
    ending = PurePath(name).suffix.lower()
    # Programs in TypeScript, and films, have the extension of Qt's files.
    is_other = ending == ".ts" and begin.strip() and not _BEGINS_TAG.match(begin)
    if not is_other and (known := _BY_ENDING.get(ending)) is not None:
        return known
    if begin.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        begin = begin[: len(begin) // 2 * 2].decode("utf-16", "replace").encode("utf-8", "replace")
    begin = begin.removeprefix(codecs.BOM_UTF8)
    return next((form for form in FORMATS if form.begins and form.begins(begin)), None)


def open_reader(name: str, reading: Reading) -> Reader | PackageReader:
    """Open a reader of documents.

    Args:
        name: name of the documents' format.
        reading: what the reader needs to know.

    Raises:
        ValueError: there is no such format, or it needs an option that is missing.
    """
    if (form := READABLE.get(name)) is None:
        raise ValueError(f"format {name!r} is not known: give {', '.join(READABLE)}")
    source, target = reading.source_language, reading.target_language
    # The modules are imported when they are first needed.
    match form.name:
        case "html":
            from dragoman_documents.html.html_reader import HtmlReader

            return HtmlReader(source_language=source)
        case "xliff" | "xml":
            from dragoman_documents.xml.xml_reader import XmlReader

            return XmlReader(source_language=source, target_language=target)
        case "srt" | "vtt":
            from dragoman_documents.text_files.subtitle_reader import SubtitleReader

            return SubtitleReader(is_vtt=name == "vtt")
        case "markdown":
            from dragoman_documents.markdown.markdown_reader import MarkdownReader

            return MarkdownReader(source)
        case "po":
            from dragoman_documents.localisation.po_reader import PoReader

            return PoReader(target)
        case "json":
            from dragoman_documents.localisation.json_reader import JsonReader

            return JsonReader(target)
        case "properties":
            from dragoman_documents.localisation.properties_reader import PropertiesReader

            return PropertiesReader()
        case "strings":
            from dragoman_documents.localisation.apple_strings_reader import AppleStringsReader

            return AppleStringsReader()
        case "csv":
            from dragoman_documents.localisation.table_reader import TableReader

            return TableReader(reading.columns)
        case "yaml":
            from dragoman_documents.localisation.yaml_reader import YamlReader

            return YamlReader()
    return PackageReader(form.name, source, target, titles=reading.titles)


def check_running_text(name: str, begin: bytes) -> None:
    """Refuse a file that may be damaged if it is translated as running text.

    Args:
        name: name of the file.
        begin: first bytes of the file.

    Raises:
        ValueError: it is binary, or has another format; the message names it.
    """
    check_text(name, begin)
    ending = PurePath(name).suffix.lower()
    known = format_of(name, begin)
    if known is not None:
        instead = known.instead if isinstance(known, RefusedFormat) else ""
        raise ValueError(
            f"{name} is {known.title}, and may be damaged as running text"
            + (f": {instead}" if instead else "")
        )
    if ending not in ("", ".txt"):
        kind = f"a file of the unknown format {ending[:20]!r}"
        raise ValueError(f"{name} is {kind}, and may be damaged as running text")


def check_text(name: str, begin: bytes) -> None:
    """Refuse a file that is not text; see `check_running_text`."""
    check_not_binary(name, begin)
    if b"\0" in begin and not begin.startswith(_UTF_16_BEGINS):
        raise ValueError(f"{name} is not text: it has bytes of 0")


def check_not_binary(name: str, begin: bytes) -> None:
    """Refuse a file that is compressed, or has a known binary format; see `check_running_text`."""
    if program := compression_of(begin):
        raise ValueError(f"{name} is compressed by {program}: decompress it first")
    for known in _BINARY:
        if known.begins and known.begins(begin):
            raise ValueError(f"{name} is {known.title}: {known.instead}")


def check_archive(name: str, begin: bytes) -> None:
    """Refuse a file that is not a ZIP archive; see `check_running_text`."""
    if not begin.startswith((_ARCHIVE, b"PK\x05\x06")):
        check_not_binary(name, begin)
        raise ValueError(f"{name} is not a ZIP archive, as Office documents and books are")
