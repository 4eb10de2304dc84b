"""Reads texts with markup, and writes their translations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, Self, get_args

from dragoman_client import Translation
from dragoman_client.files.document_translation import Excerpt, read_text
from dragoman_client.files.file_formats import Reader
from dragoman_documents.core.segments import Segment
from dragoman_documents.html.html_reader import HtmlReader
from dragoman_documents.xml.xml_profiles import TEXT
from dragoman_documents.xml.xml_reader import XmlReader
from dragoman_options.markup import Markup, PlacedCodes
from dragoman_options.refusal import WrongValue

TextFormat = Literal["html", "xml"]
TEXT_FORMATS: Final[tuple[TextFormat, ...]] = get_args(TextFormat)


@dataclass(frozen=True)
class TextForm:
    """How the markup of texts is read.

    Attributes:
        format: format of the texts.
        source_language: language of the texts, if known; text in another one is not translated.
        ignore: XML elements whose content is not translated.
        splitting: XML elements that split texts.
        non_splitting: XML elements that do not.
        outline_detection: False: no other XML elements split texts.
    """

    format: TextFormat
    source_language: str | None = None
    ignore: Sequence[str] = ()
    splitting: Sequence[str] = ()
    non_splitting: Sequence[str] = ()
    outline_detection: bool = True

    def open_reader(self) -> Reader:
        """Returns a reader for a text."""
        if self.format == "html":
            return HtmlReader(encoding="utf-8", source_language=self.source_language)
        profile = TEXT.with_tags(
            ignore=self.ignore,
            splitting=self.splitting,
            non_splitting=self.non_splitting,
            outline_detection=self.outline_detection,
        )
        return XmlReader(
            profile, encoding="utf-8", is_fragment=True, source_language=self.source_language
        )


@dataclass(frozen=True)
class ReadText:
    """The segments of a text with markup.

    Attributes:
        texts: text of each segment.
        markups: markup of each.
    """

    texts: Sequence[str]
    markups: Sequence[Markup]

    @classmethod
    def of(cls, segments: Sequence[Segment]) -> Self:
        """Returns texts and markup of segments."""
        return cls([segment.text for segment in segments], [segment.markup for segment in segments])


@dataclass(frozen=True)
class Answer:
    """The translation of a segment.

    Attributes:
        text: its text.
        codes: positions of the codes of its markup.
    """

    text: str
    codes: PlacedCodes | None = None


def excerpt_of(text: str, form: TextForm, index: int) -> Excerpt:
    """Read a text.

    Raises:
        WrongValue: the text does not have its format; it is named by its index.
    """
    try:
        return read_text(text, form.open_reader())
    except ValueError as error:
        message = f"text {index} is not valid markup: {error}"
        raise WrongValue(message, text_index=index) from error


def translation_of(answer: Answer | None) -> Translation | None:
    """Returns the translation of a segment for its reader; None: it is not changed."""
    return None if answer is None else Translation(answer.text, 0, "stop", codes=answer.codes)
