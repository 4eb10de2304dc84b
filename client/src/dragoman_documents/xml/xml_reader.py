"""Reads XML as segments and the bytes between them, according to a profile."""

from __future__ import annotations

from dragoman_documents.core.languages import DocumentLanguages
from dragoman_documents.core.segments import Raw, Segment
from dragoman_documents.xml.bilingual import UnitReader
from dragoman_documents.xml.bilingual_forms import form_of
from dragoman_documents.xml.outline import Outline
from dragoman_documents.xml.xml_profiles import GENERIC, XmlProfile, profile_of
from dragoman_documents.xml.xml_roles import XmlRoles
from dragoman_documents.xml.xml_segmenter import XmlSegmenter
from dragoman_documents.xml.xml_tokens import XmlToken, XmlTokens

_HEAD_BYTES = 1 << 13
"""At least this much, and the root's tag, is read before the profile is chosen."""


class XmlReader:
    """Reads a document in chunks.

    The concatenated output is the input, byte for byte. For a bilingual file the output has, in
    addition, the source texts at the positions of their translations.
    """

    def __init__(
        self,
        profile: XmlProfile | None = None,
        *,
        encoding: str | None = None,
        is_fragment: bool = False,
        source_language: str | None = None,
        target_language: str | None = None,
        overwrites: bool = False,
    ) -> None:
        """Start before the first chunk.

        Args:
            profile: profile of the document; None: chosen by the root element.
            encoding: encoding of the document; None: the declared one.
            is_fragment: whether the input is a fragment, in UTF-8, that need not be one element.
            source_language: language of the document, if known; text in another language,
                according to `xml:lang`, is not translated.
            target_language: target language of a bilingual file.
            overwrites: whether to replace the translations that a bilingual file has.

        Raises:
            ValueError: the encoding is not known.
        """
        self._tokens = XmlTokens(encoding, is_fragment=is_fragment)
        self._source_language, self._target_language = source_language, target_language
        self._overwrites = overwrites
        self._profile = profile
        self._is_fragment = is_fragment
        self._head = b""
        self._unread: list[XmlToken] = []
        """The tokens read before the profile is chosen."""
        self._document: _Document | UnitReader | None = None

    @property
    def warnings(self) -> list[str]:
        """What the reader ignored so far; the messages quote the document."""
        return [] if self._document is None else self._document.warnings

    def feed(self, chunk: bytes) -> list[Raw | Segment]:
        """Read the next chunk.

        Raises:
            ValueError: the document is not well-formed, or refused; the message says where.
        """
        self._unread += self._tokens.feed(chunk)
        if self._document is None:
            self._head += chunk[: _HEAD_BYTES - len(self._head)]
            if len(self._head) < _HEAD_BYTES or self._root is None:
                return []
        return self._read()

    def close(self) -> list[Raw | Segment]:
        """Returns the remaining parts; raises like `feed`."""
        self._unread += self._tokens.close()
        return [*self._read(), *self._begun().finish()]

    def _read(self) -> list[Raw | Segment]:
        document = self._begun()
        for token in self._unread:
            document.add(token)
        self._unread.clear()
        return document.take()

    @property
    def _root(self) -> XmlToken | None:
        return next((token for token in self._unread if token.kind == "start"), None)

    def _begun(self) -> _Document | UnitReader:
        if self._document is None:
            self._document = self._document_of(self._root)
            self._head = b""
        return self._document

    def _document_of(self, root: XmlToken | None) -> _Document | UnitReader:
        encoding = self._tokens.encoding
        if self._is_fragment or root is None:
            profile, languages = self._profile or GENERIC, DocumentLanguages(self._source_language)
            return _Document(profile, encoding, languages, self._is_fragment)
        form = form_of(root) if self._profile is None else None
        if form is not None:
            return UnitReader(form, encoding, self._target_language, self._overwrites)
        profile = self._profile or profile_of(root.name, self._head)
        languages = DocumentLanguages(self._source_language, profile.language_of(root.attributes))
        return _Document(profile, encoding, languages)


class _Document:
    """The steps from tokens to segments."""

    def __init__(
        self,
        profile: XmlProfile,
        encoding: str,
        languages: DocumentLanguages,
        is_fragment: bool = False,
    ) -> None:
        self._roles = XmlRoles(profile, languages)
        self._outline = Outline(is_fragment=is_fragment) if profile.has_auto else None
        self._segmenter = XmlSegmenter(profile, encoding)

    @property
    def warnings(self) -> list[str]:
        return self._roles.warnings

    def add(self, token: XmlToken) -> None:
        item = self._roles.item(token)
        for decided in self._outline.feed(item) if self._outline else [item]:
            self._segmenter.add(decided)

    def take(self) -> list[Raw | Segment]:
        return self._segmenter.take()

    def finish(self) -> list[Raw | Segment]:
        for decided in self._outline.close() if self._outline else []:
            self._segmenter.add(decided)
        return self._segmenter.finish()
