"""The kinds of packages, and which of their members have text.

Office Open XML lists the types of its members, EPUB has a manifest; OpenDocument's members have
fixed names.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, TypeVar
from urllib.parse import unquote
from xml.parsers import expat

from dragoman_documents.office import run_profiles
from dragoman_documents.office.container import Container
from dragoman_documents.office.formulas import Quoted
from dragoman_documents.office.run_profiles import RunProfile
from dragoman_documents.xml.its_rules import local_name
from dragoman_documents.xml.xml_profiles import NCX, OPENDOCUMENT, XHTML, XmlProfile

PackageName = Literal["docx", "pptx", "xlsx", "odt", "ods", "odp", "epub"]
"""Names of the formats that are ZIP archives."""
T = TypeVar("T")
_MOST_LIST_BYTES = 1 << 22
"""Maximum size of a member that lists others."""
_TYPES, _MANIFEST = "[Content_Types].xml", "META-INF/manifest.xml"
_MIME_TYPES: Final[Mapping[str, PackageName]] = {
    "application/epub+zip": "epub",
    "application/vnd.oasis.opendocument.text": "odt",
    "application/vnd.oasis.opendocument.spreadsheet": "ods",
    "application/vnd.oasis.opendocument.presentation": "odp",
}
_MAIN: Final[Mapping[PackageName, tuple[str, str]]] = {
    "docx": ("wordprocessingml.", "ms-word."),
    "pptx": ("presentationml.", "ms-powerpoint."),
    "xlsx": ("spreadsheetml.", "ms-excel."),
}
"""Parts of the types of the main members of Office Open XML."""
_PROFILES: Final = (
    (
        r"(?:openxmlformats-officedocument\.wordprocessingml|ms-word)\."
        r"(?:(?:document|template)(?:\.macroEnabled(?:Template)?)?\.main"
        r"|footnotes|endnotes|header|footer|comments)",
        run_profiles.WORD,
    ),
    (
        r"openxmlformats-officedocument\.(?:presentationml\.(?:slide|notesSlide)"
        r"|drawingml\.(?:chart|chartshapes|diagramData)|drawing)"
        r"|ms-office\.(?:drawingml\.diagramDrawing|chartex)",
        run_profiles.DRAWING,
    ),
    (
        r"(?:openxmlformats-officedocument\.presentationml|ms-powerpoint)\.comments",
        run_profiles.COMMENTS,
    ),
    (
        r"openxmlformats-officedocument\.spreadsheetml\.(?:sharedStrings|worksheet)",
        run_profiles.STRINGS,
    ),
    (r"openxmlformats-officedocument\.spreadsheetml\.comments", run_profiles.CELL_COMMENTS),
    (r"ms-excel\.threadedcomments", run_profiles.THREADS),
    (r"openxmlformats-officedocument\.wordprocessingml\.numbering", run_profiles.NUMBERING),
    (r"openxmlformats-officedocument\.wordprocessingml\.styles", run_profiles.NO_TEXT),
    (r"openxmlformats-package\.core-properties", run_profiles.NO_TEXT),
)
"""Profiles by the type of a member."""
_WITH_FORMULAS = re.compile(
    r"application/vnd\.(?:openxmlformats-officedocument\.spreadsheetml|ms-excel)\.(?:worksheet"
    r"|table|pivotCacheDefinition|.*main)\+xml"
)
_ODF_MEMBER = re.compile(r"(?:Object [^/]+/)?(?:content|styles)\.xml")
_LOCKED = "it has a password: save it without one"


@dataclass(frozen=True)
class Member:
    """A member with text.

    Attributes:
        index: its index in the container.
        profile: its format.
    """

    index: int
    profile: RunProfile | XmlProfile


@dataclass(frozen=True)
class Package:
    """A package and its members with text, in the container's order.

    Attributes:
        name: kind of the package.
        members: its members with text.
        quoted: the texts that formulas quote, which are not translated.
    """

    name: PackageName
    members: tuple[Member, ...]
    quoted: Quoted | None = None


def package_of(container: Container) -> Package:
    """Returns the package that a container has.

    Raises:
        ValueError: it has none that can be translated; the message says why.
    """
    name: PackageName | None = None
    if (index := container.index("mimetype")) is not None:
        mime_type = _named("mimetype", partial(container.read, index, _MOST_LIST_BYTES))
        name = _MIME_TYPES.get(
            mime_type.decode("ascii", "replace").strip().removesuffix("-template")
        )
    if name == "epub":
        return Package(name, _sorted(container, _books(container)))
    if name is not None:
        return _open_document(container, name)
    if (index := container.index(_TYPES)) is not None:
        return _office(container, index)
    raise ValueError("a ZIP archive that is not an Office document or EPUB book")


def _sorted(container: Container, members: Iterator[Member]) -> tuple[Member, ...]:
    return tuple(sorted(members, key=lambda member: container.order[member.index]))


def _office(container: Container, types: int) -> Package:
    defaults: dict[str, str] = {}
    overrides: dict[str, str] = {}
    for element, attributes in _elements(container, types):
        kind = attributes.get("ContentType", "")
        if element == "Default":
            defaults[attributes.get("Extension", "").lower()] = kind
        elif element == "Override":
            overrides[unquote(attributes.get("PartName", "")).lstrip("/").lower()] = kind
    kinds = [
        overrides.get(name.lower(), defaults.get(name.rpartition(".")[2].lower(), ""))
        for name in container.names
    ]
    mains = " ".join(kind for kind in kinds if kind.endswith("main+xml"))
    name = next((name for name, parts in _MAIN.items() if any(map(mains.count, parts))), None)
    if name is None:
        if any("sheet.binary" in kind for kind in kinds):
            raise ValueError("a binary workbook (XLSB): save it as XLSX")
        raise ValueError("an Office package that is not a DOCX, PPTX or XLSX")
    quoted = Quoted() if name == "xlsx" else None
    return Package(name, _sorted(container, _parts(container, kinds, quoted)), quoted)


def _parts(container: Container, kinds: list[str], quoted: Quoted | None) -> Iterator[Member]:
    patterns = [
        (re.compile(rf"application/vnd\.(?:{kind})\+xml"), profile) for kind, profile in _PROFILES
    ]
    for index, kind in enumerate(kinds):
        has_texts = True
        if quoted is not None and _WITH_FORMULAS.fullmatch(kind):
            _named(container.names[index], partial(quoted.read, container.chunks(index)))
            has_texts = quoted.has_texts
        profile = next((profile for pattern, profile in patterns if pattern.fullmatch(kind)), None)
        if profile is not None and has_texts:
            yield Member(index, profile)


def _open_document(container: Container, name: PackageName) -> Package:
    if (manifest := container.index(_MANIFEST)) is not None and any(
        element == "encryption-data" for element, _ in _elements(container, manifest)
    ):
        raise ValueError(_LOCKED)
    quoted = Quoted() if name == "ods" else None
    if quoted is not None and (content := container.index("content.xml")) is not None:
        _named("content.xml", partial(quoted.read, container.chunks(content)))
    members = (
        Member(index, OPENDOCUMENT)
        for index, path in enumerate(container.names)
        if _ODF_MEMBER.fullmatch(path)
    )
    metadata = container.index("meta.xml")
    others = [] if metadata is None else [Member(metadata, run_profiles.NO_TEXT)]
    return Package(name, _sorted(container, iter([*members, *others])), quoted)


def _books(container: Container) -> Iterator[Member]:
    """Yield the members of a book."""
    by_type: Mapping[str, RunProfile | XmlProfile] = {
        "application/xhtml+xml": XHTML,
        "application/x-dtbncx+xml": NCX,
    }
    roots = [
        attributes.get("full-path", "")
        for element, attributes in _listed(container, "META-INF/container.xml")
        if element == "rootfile"
    ]
    encrypted = {
        unquote(attributes.get("URI", ""))
        for element, attributes in _listed(container, "META-INF/encryption.xml", is_needed=False)
        if element == "CipherReference"
    }
    seen: set[int] = set()
    for root in roots:
        if (index := container.index(root)) is None:
            raise ValueError(f"it has no {root[:80]!r}, which its list of contents names")
        profiles: dict[str, RunProfile | XmlProfile] = {root: run_profiles.NO_TEXT}
        for element, attributes in _elements(container, index):
            profile = by_type.get(attributes.get("media-type", ""))
            if element == "item" and profile is not None:
                path = posixpath.join(posixpath.dirname(root), unquote(attributes.get("href", "")))
                profiles[posixpath.normpath(path)] = profile
        for path, profile in profiles.items():
            if path in encrypted:
                raise ValueError("its pages are encrypted (DRM), and cannot be read")
            if (index := container.index(path)) is not None and index not in seen:
                seen.add(index)
                yield Member(index, profile)


def _listed(
    container: Container, name: str, *, is_needed: bool = True
) -> list[tuple[str, Mapping[str, str]]]:
    index = container.index(name)
    if index is None and is_needed:
        raise ValueError(f"it has no {name}")
    return [] if index is None else _elements(container, index)


def _elements(container: Container, index: int) -> list[tuple[str, Mapping[str, str]]]:
    """Returns the elements of a small member, in order, each with its attributes."""
    elements: list[tuple[str, Mapping[str, str]]] = []

    def refuse(*_declared: object) -> None:
        raise ValueError("it declares entities")

    def read() -> None:
        parser = expat.ParserCreate()
        parser.StartElementHandler = lambda name, values: elements.append(
            (local_name(name), values)
        )
        parser.EntityDeclHandler = refuse
        try:
            parser.Parse(container.read(index, _MOST_LIST_BYTES), True)
        except expat.ExpatError as error:
            message = expat.ErrorString(error.code)
            raise ValueError(f"line {error.lineno}, column {error.offset + 1}: {message}") from None

    _named(container.names[index], read)
    return elements


def _named(name: str, read: Callable[[], T]) -> T:
    """Read a member; an error names it."""
    try:
        return read()
    except ValueError as error:
        raise ValueError(f"{name}, {error}") from error
