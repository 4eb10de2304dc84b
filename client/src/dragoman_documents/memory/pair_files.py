"""Reads the pairs of bilingual files, and writes TMX."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import BinaryIO, Final
from xml.sax.saxutils import escape, quoteattr

from dragoman_options.markup import Code, Span

from dragoman_documents.core.gaps import BREAK
from dragoman_documents.core.languages import is_compatible, names_language
from dragoman_documents.core.segments import fitted
from dragoman_documents.localisation.po_reader import po_language, po_pairs
from dragoman_documents.memory.pairs import Pair
from dragoman_documents.memory.unit_pairs import ANY, UnitPairs
from dragoman_documents.xml.bilingual_forms import form_of
from dragoman_documents.xml.xml_tokens import XmlToken, XmlTokens

_CHUNK_BYTES: Final = 1 << 16
_NOT_IN_XML: Final = dict.fromkeys(
    {*range(32), 0xFFFE, 0xFFFF, *range(0xD800, 0xE000)} - {9, 10, 13}
)
_HEAD: Final = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    '<tmx version="1.4">\n'
    '<header creationtool="Dragoman" creationtoolversion="1" segtype="block" o-tmf="Dragoman" '
    'adminlang="en" datatype="plaintext" srclang={}/>\n<body>\n'
)
_END: Final = "</body>\n</tmx>\n"


class PairFile:
    """Reads the pairs of a file: TMX, XLIFF 1.2 or 2.x, Qt ts, or PO.

    Attributes:
        pairs: the pairs in the order of the file. Iterating raises `ValueError` if the file does
            not have its format; the message says where.
    """

    def __init__(
        self, file: BinaryIO, source: str | None = None, target: str | None = None
    ) -> None:
        """Start before the first byte.

        Args:
            file: the file.
            source: source language; None: the one that the file declares; PO does not.
            target: target language; None: the one that the file declares, or that of the first
                translation in TMX.
        """
        self._languages = source or ANY, target or ANY
        self._units: UnitPairs | None = None
        self.pairs = self._read(file)

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target language, known with the first pair; "und": unknown."""
        return self._languages if self._units is None else self._units.languages

    @property
    def skipped(self) -> int:
        """Units so far without a reviewed translation, or with elements on one side only."""
        return 0 if self._units is None else self._units.skipped

    def _read(self, file: BinaryIO) -> Iterator[Pair]:
        begin = file.read(_CHUNK_BYTES)
        if not _is_xml(begin):
            self._choose_target(po_language(begin))
            for source, target in po_pairs(begin, file):
                yield Pair(source, target)
            return
        tokens = XmlTokens()
        for chunk in chain((begin,), iter(partial(file.read, _CHUNK_BYTES), b"")):
            yield from self._pairs_of(tokens.feed(chunk), tokens.encoding)
        yield from self._pairs_of(tokens.close(), tokens.encoding)
        if self._units is not None:
            self._units.finish()

    def _choose_target(self, declared: str) -> None:
        source, target = self._languages
        if declared and not names_language(target):
            self._languages = source, declared
        elif declared and not is_compatible(declared, target):
            raise ValueError(f"its translations are in {declared!r}, not {target!r}")

    def _pairs_of(self, tokens: list[XmlToken], encoding: str) -> list[Pair]:
        for token in tokens:
            if self._units is None and token.kind == "start":
                if (form := form_of(token)) is None:
                    root = repr(token.name[:40])
                    raise ValueError(f"its root element is {root}: give TMX, XLIFF, Qt ts or PO")
                self._units = UnitPairs(form, encoding, self._languages)
            if self._units is not None:
                self._units.add(token)
        return [] if self._units is None else self._units.take_pairs()


def _is_xml(begin: bytes) -> bool:
    return begin.replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xfe\xff \t\r\n").startswith(b"<")


def write_tmx(pairs: Iterable[Pair], languages: tuple[str, str]) -> Iterator[bytes]:
    """Yield a file in TMX 1.4.

    Args:
        pairs: the pairs.
        languages: source and target language.
    """
    source, target = map(quoteattr, languages)
    yield _HEAD.format(source).encode()
    for pair in pairs:
        own = [(begin, end) for begin, end, _ in pair.codes]
        first = _seg(pair.source, pair.codes, own)
        second = _seg(pair.target, pair.codes, pair.placed)
        yield (
            f"<tu>\n<tuv xml:lang={source}><seg>{first}</seg></tuv>\n"
            f"<tuv xml:lang={target}><seg>{second}</seg></tuv>\n</tu>\n"
        ).encode()
    yield _END.encode()


def _seg(text: str, codes: Sequence[Code], spans: Sequence[Span]) -> str:
    """Returns a text with its codes as elements of TMX."""
    if not codes:
        return _escaped(text)
    spans, inner = fitted(codes, spans, len(text))
    written: list[str] = []
    entered = [(len(text), "", iter(inner[-1]))]
    position = 0
    while entered:
        end, closing, indices = entered[-1]
        index = next(indices, None)
        until = end if index is None else spans[index][0]
        written.append(_escaped(text[position:until]))
        position = until
        if index is None:
            written.append(closing)
            entered.pop()
        elif text[slice(*spans[index])] == BREAK:
            written.append(f'<ph x="{index + 1}" type="lb"/>')
            position = spans[index][1]
        elif codes[index].begin == codes[index].end:
            written.append(f'<ph x="{index + 1}"/>')
        else:
            written.append(f'<bpt i="{index + 1}" x="{index + 1}"/>')
            entered.append((spans[index][1], f'<ept i="{index + 1}"/>', iter(inner[index])))
    return "".join(written)


def _escaped(text: str) -> str:
    return escape(text.translate(_NOT_IN_XML), {"\r": "&#13;"})
