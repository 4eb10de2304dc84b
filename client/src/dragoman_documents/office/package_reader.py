"""Reads packages as segments and the bytes between them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import BinaryIO, Final

from dragoman_documents.core.languages import names_language
from dragoman_documents.core.segments import Raw, Segment
from dragoman_documents.office.container import Container, MemberBegin
from dragoman_documents.office.packages import Member, Package, PackageName, package_of
from dragoman_documents.office.run_profiles import NO_TEXT, TITLE, RunProfile
from dragoman_documents.office.runs import RunReader
from dragoman_documents.xml.xml_profiles import OPENDOCUMENT, XHTML
from dragoman_documents.xml.xml_reader import XmlReader

Part = Raw | Segment | MemberBegin

_SIGNATURES = ("_xmlsignatures/", "META-INF/documentsignatures.xml")
_JOINED_BYTES = 1 << 16
_LABELED = (NO_TEXT, OPENDOCUMENT, XHTML)
"""Formats whose own mark of the language is changed, besides those of translated runs."""
_TAG: Final = re.compile("[A-Za-z]{2,8}(?:[-_][A-Za-z0-9]{1,8})*")
_LABELS: Final = re.compile(
    rb"""<(?:w:lang|a:rPr|html)\b[^<>]*+>|\bfo:language=["'][^"'<>]*|<dc:language\b[^<>]*+>[^<]*+"""
)
_LANGUAGES: Final = re.compile(rb"""(\s(?:w:val|(?:xml:)?lang)=["'])[^"']*""")
_COUNTRIES: Final = re.compile(rb"""(\bfo:country=["'])[^"'<>\s]+""")
"""Marks of a text's language; a country is written in its own attribute, or not at all."""


class PackageReader:
    """Reads a package whose content is known from its first bytes on."""

    def __init__(
        self,
        name: PackageName,
        source_language: str | None = None,
        target_language: str | None = None,
        *,
        titles: bool = False,
    ) -> None:
        """Start before the package.

        Args:
            name: kind that the package must have.
            source_language: language of the document, if known.
            target_language: language of the translation; the document is marked as being in it.
            titles: whether to translate the title among its properties.
        """
        self._titles = titles
        self._name, self._source_language = name, source_language
        is_named = names_language(target_language) and _TAG.fullmatch(target_language or "")
        self._label = (target_language or "").replace("_", "-").encode() if is_named else None
        self.warnings: list[str] = []
        """What else a reader of the translation must know."""

    def parts(self, file: BinaryIO) -> Iterator[Part]:
        """Yield the parts of each member that may change, after its `MemberBegin`.

        Args:
            file: the package; it must be possible to seek in it.

        Raises:
            ValueError: it is not such a package, or damaged; the message says where.
        """
        container = Container(file)
        package = package_of(container)
        if package.name != self._name:
            raise ValueError(f"it is {package.name.upper()}, not {self._name.upper()}")
        for member in package.members:
            yield MemberBegin(member.index)
            for part in self._content(container, member):
                if isinstance(part, Segment) and _is_quoted(part, package):
                    yield Raw(part.original, left="quoted")
                else:
                    yield part
        if any(name.startswith(_SIGNATURES) for name in container.names):
            self.warnings.append("its digital signature is not valid for the translation")

    def _content(self, container: Container, member: Member) -> Iterator[Raw | Segment]:
        reader = self._open(member)
        name = container.names[member.index]
        try:
            parts = _read(reader, container.chunks(member.index))
            if self._label is not None and member.profile in _LABELED:
                parts = self._relabeled(parts)
            yield from parts
        except ValueError as error:
            raise ValueError(f"{name}, {error}") from error
        self.warnings += reader.warnings

    def _open(self, member: Member) -> RunReader | XmlReader:
        if isinstance(member.profile, RunProfile):
            has_title = self._titles and member.profile is NO_TEXT
            profile = TITLE if has_title else member.profile
            return RunReader(profile, self._relabel if self._label else lambda tags: tags)
        language = self._source_language if member.profile is XHTML else None
        return XmlReader(member.profile, source_language=language)

    def _relabeled(self, parts: Iterable[Raw | Segment]) -> Iterator[Raw | Segment]:
        """Yields the parts with other marks of the language outside of texts."""
        held = bytearray()
        for part in parts:
            if isinstance(part, Raw):
                held += part.content
            if held and (isinstance(part, Segment) or len(held) > _JOINED_BYTES):
                yield Raw(self._relabel(bytes(held)))
                held.clear()
            if isinstance(part, Segment):
                yield part
        yield Raw(self._relabel(bytes(held)))

    def _relabel(self, tags: bytes) -> bytes:
        label = self._label or b""
        language, _, country = label.partition(b"-")
        country = country if len(country) == 2 else b"none"
        tags = _COUNTRIES.sub(rb"\g<1>" + country, tags)

        def replaced(match: re.Match[bytes]) -> bytes:
            if match[0].startswith(b"fo:"):
                return match[0][: len(b"fo:language='")] + language
            if match[0].startswith(b"<dc:"):
                return match[0][: match[0].index(b">") + 1] + label
            return _LANGUAGES.sub(rb"\g<1>" + label, match[0])

        return _LABELS.sub(replaced, tags)


def _read(reader: RunReader | XmlReader, chunks: Iterable[bytes]) -> Iterator[Raw | Segment]:
    for chunk in chunks:
        yield from reader.feed(chunk)
    yield from reader.close()


def _is_quoted(segment: Segment, package: Package) -> bool:
    return package.quoted is not None and segment.text in package.quoted
