"""No reader, checker or splitter of a client's text takes more than linear time.

What is fast for prose may be slow for text that nobody writes, so each reads shapes of such text.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest
from dragoman_client import Translation
from dragoman_client.files.document_translation import read_text
from dragoman_client.files.documents import Document
from dragoman_client.files.file_formats import READABLE, Reading, format_of, open_reader
from dragoman_client.files.glossary_files import parse_glossary
from dragoman_documents.html.html_reader import HtmlReader
from dragoman_documents.localisation.table_reader import TableReader
from dragoman_documents.memory.pair_files import PairFile, write_tmx
from dragoman_documents.memory.pairs import Pair, normalized
from dragoman_documents.office.formulas import Quoted
from dragoman_documents.office.package_reader import PackageReader
from dragoman_documents.office.run_profiles import WORD
from dragoman_documents.office.runs import RunReader
from dragoman_documents.xml.xml_profiles import GENERIC
from dragoman_documents.xml.xml_reader import XmlReader
from dragoman_gateway.core.errors import GatewayError
from dragoman_gateway.glossaries.term_index import TermIndex
from dragoman_gateway.protocols.chat.prompts import read_prompt
from dragoman_gateway.protocols.kserve.inference import _decoded
from dragoman_gateway.protocols.own.bodies import _unknown
from dragoman_gateway.protocols.own.shapes import TranslateRequest
from dragoman_gateway.protocols.riva.phrases import read_phrases, take_marks
from dragoman_gateway.reader.marked import TextForm, excerpt_of
from dragoman_gateway.texts.languages import code_in
from dragoman_gateway.texts.segmentation import split
from dragoman_gateway.web.body_encodings import UTF_8, encoding_of
from dragoman_gateway.web.forwarding import Forwarding
from dragoman_gateway.web.requests import _form_pairs
from dragoman_options.markup import Code
from dragoman_options.refusal import WrongType
from dragoman_options.table import TRANSLATE, check
from dragoman_serving.fidelity.literals import known_literals, tag_spans
from dragoman_serving.fidelity.messages import syntax_spans
from dragoman_serving.fidelity.negations import says_opposite
from dragoman_serving.fidelity.numbers import difference
from dragoman_serving.fidelity.paired_marks import tags_of
from dragoman_serving.fidelity.plain_sentences import is_plain
from dragoman_serving.fidelity.spellings import with_spellings
from dragoman_serving.request.glossary import Glossary
from dragoman_serving.translation.faults import is_copy
from dragoman_serving.translation.segments import has_words

from dragoman.kernel.errors import DragomanError
from dragoman.kernel.text import Tokenizer
from dragoman.kernel.texts.cutting import _places
from dragoman.kernel.texts.language import detect_language, detectable_languages
from dragoman.kernel.texts.sentences import LineBreaks, split_sentences
from dragoman.kernel.texts.tags import without_tags
from dragoman.kernel.tracing import sampled_context
from tests.conftest import REPOSITORY
from tests.timing import fastest_s, fault_of_growth

_SIZE, _MARKUP_SIZE = 8192, 4096
_SENTENCES_SIZE = 20_000
"""A quarter of it is as long as the longest text that is split into sentences at once."""
_PROSE = "The committee met at 10.\nIt was late, so they left.\n\n"
_CHARACTERS = [*'"“(<{&%$#.-!,a1 \t\n\u00a0\u200d漢😀', "e\u0301", "\r\n", "\\"]
_PHRASES = [
    *("XV a ", "Tom I, ", "XV {a} ", "twenty a ", "vingt a ", "zwanzig a ", "3pm ", "{n} files "),
    *("*a ", "a* ", "*", "_a_", "[b]a", "[/b]", "\\emph{a", "}", "[[a|", "](a/b(", "\u2068"),
    *("not no ", "never without ", "World War I ", "dix ", "ten to two ", "half a ", "1/2 a "),
    *("a ", "a\n", "1. ", "A. ", "Dr. ", "der 2. ", '?" ', "...", "http://a.b/", "a@b.", "a,b\n"),
    *(
        "{{",
        "%(",
        "%0",
        "%41",
        "<!---->",
        "<!--",
        "</a ",
        "<a x='",
        "a\tb\n",
        "[a](",
        "&lt;a",
        '{"a":',
        '"a","b"\n',
    ),
]
_TOKENIZER = Tokenizer(REPOSITORY / "model_repository/translate/1/bundle/tokenizer.model")
_GLOSSARY = Glossary({"a" + " a" * number: "b" for number in range(20)})
_FORWARDING = Forwarding(("10.0.0.0/8",))
_INDEX = TermIndex({"a" + " a" * number: "b" for number in range(200)})


def _paragraphs(text: str) -> None:
    list(Document().paragraphs(io.BytesIO(text.encode()), "a"))


def _broken_lines(text: str) -> None:
    LineBreaks.of(text).put_into(text)


def _columns(text: str) -> None:
    names = list(map(str, range(len(text) // 6)))
    read_text(",".join(names), TableReader(names[::-1]))


def _spelled(text: str, language: str) -> None:
    literals = known_literals(text)
    with_spellings(text, language, literals, literals, "fr" if language == "en" else "en")
    with_spellings(text, language, literals, literals, "de")


_OF_TEXT: dict[str, Callable[[str], object]] = {
    **{f"sentences {code}": partial(split_sentences, language=code) for code in ("en", "de")},
    "sentences with placeholders": lambda text: split(text, "en", True),
    "clauses": lambda text: list(_places(text, "en")),
    "paragraphs": _paragraphs,
    "line breaks": _broken_lines,
    "tags": without_tags,
    "literals": known_literals,
    **{f"plain sentence {code}": partial(is_plain, language=code) for code in ("en", "fr")},
    **{f"spellings {code}": partial(_spelled, language=code) for code in ("en", "de", "fr")},
    "negations": lambda text: says_opposite.__wrapped__(text, text[::-1], "en", "de"),
    "spans of tags": tag_spans,
    "tags and marks": lambda text: tags_of(text, True, True),
    "numbers": lambda text: difference(text, text[::-1], ("en", "de")),
    "terms": lambda text: _INDEX.occurring(text, 12),
    "marks": lambda text: take_marks([text]),
    "format": lambda text: format_of("a.txt", text.encode()),
    "form": lambda text: _form_pairs(text.encode(), "utf-8"),
    **{f"glossary {form}": partial(parse_glossary, form=form) for form in ("csv", "tsv", "json")},
    "normalized text": lambda text: normalized(text, (Code(0, len(text)), Code(0, 0, 0))),
    "pairs of PO": lambda text: list(PairFile(io.BytesIO(text.encode())).pairs),
    "TMX": lambda text: list(write_tmx([Pair(text, text)], ("en", "de"))),
    "index of a glossary": lambda text: TermIndex({text[:at]: "a" for at in (9, 99, 999, 4999)}),
    "terms of the engine": _GLOSSARY.of,
    "phrases": lambda text: read_phrases([text]),
    "values of tensors": lambda text: _decoded("BYTES", 4 * b"\0" + text.encode(), 100_000),
    "messages": syntax_spans,
    "words beside literals": lambda text: has_words(text, known_literals(text)),
    "copies": lambda text: is_copy(text, text[::-1]),
    "subword tokens": _TOKENIZER.pieces,
    "language": lambda text: detect_language(text, ("en", "de"), detectable_languages()),
    "forwarded addresses": lambda text: _FORWARDING.client(text.encode("latin-1", "replace"), ""),
    "prompts": lambda text: read_prompt(text, text, lambda words: code_in(words) is not None),
    "unknown fields": lambda text: _unknown(text, ("text", "format"), None),
    "unknown options": lambda text: check({text: 1}, TRANSLATE),
    "charsets": lambda text: encoding_of(text, frozenset((UTF_8,))),
    "columns": _columns,
    "JSON": lambda text: msgspec.json.decode(text, type=TranslateRequest),
    "trace contexts": lambda text: sampled_context({"traceparent": text}),
}

_ITS = "<r xmlns:its='http://www.w3.org/2005/11/its'><its:rules version='2.0'>%s</its:rules>%%s</r>"
_RULE = "<its:translateRule selector='%s' translate='yes'/>"
_UNIT = "<xliff version='1.2'><file><body><trans-unit id='1'>%s</trans-unit></body></file></xliff>"
_SEGMENT = (
    "<xliff version='2.0' srcLang='en'><file id='f'><unit id='1'><segment><source>%s</source>"
    "</segment></unit></file></xliff>"
)
_IN_TAGS = [
    *("<a>x</a>", "x<b/>", "x<!---->", "&amp;", "&lt;a"),
    *("&lt;b&gt;", "<![CDATA[<a]]>", "%0", "{{a", "x "),
]
_UNCLOSED = [
    *("<b>", "<b>x ", "<div>", "<p><b>x", "<a>x<p>"),
    *("<table><tr><td>x", "<table><b>x<tr>", "<svg>x<p>", "</>x", "<", "&", "<b></b>"),
    *("<!--", "<li><b>x", "<span>x</i> ", "<font></p>x"),
    *("<object><b></object>x", "<meta charset=x>"),
]
_CUE = "1\n00:00:00,000 --> 00:00:01,000\n%s\n\n"
_CUES = [_CUE % "and a", _CUE % "A.", _CUE % "", _CUE % "<i>a</i>"]
_SENTENCE = "The committee approved the annual budget."
_USUAL = {
    "srt": _CUE % _SENTENCE,
    "vtt": _CUE % _SENTENCE,
    "markdown": f"{_SENTENCE}\n\n",
    "po": f'msgid "{_SENTENCE}"\nmsgstr ""\n\n',
    "yaml": f"a: {_SENTENCE}\n",
    "json": f'"a": "{_SENTENCE}",\n',
    "properties": f"a = {_SENTENCE}\n",
    "strings": f'"a" = "{_SENTENCE}";\n',
    "csv": f"{_SENTENCE},1,b\n",
    "pairs": (
        f"<tu><tuv xml:lang='en'><seg>{_SENTENCE}</seg></tuv>"
        f"<tuv xml:lang='de'><seg>{_SENTENCE} Ja.</seg></tuv></tu>"
    ),
    "terms": (
        "<termEntry><langSet xml:lang='en'><term>a usual term</term></langSet>"
        "<langSet xml:lang='de'><term>ein Wort</term></langSet></termEntry>"
    ),
}
"""Usual parts of text files, translation memories and glossaries."""
_MARKDOWN = [
    *("*a", "*a* ", "**a", "_a_ ", "[", "]", "[a](b) ", "[a](", '![a](b "', "`a` ", "``", "<a "),
    *("<!--", "- ", "> ", "- a\n", "> a\n", "1. a\n", "| a ", "|a|b|\n|-|-|\n", "a  \n", "~~~\n"),
    *("[a]: b\n", "# a\n", "<p>\n", "[^a] ", "{{a"),
    *("$a", "&amp;", "\\", "\t", "a\n===\n", "!!! a\n "),
]
_RUN = "<w:r><w:t>x</w:t></w:r>"
_IN_RUNS = [
    *(_RUN, "<w:r><w:rPr><w:b/></w:rPr><w:t>x</w:t></w:r>", "<w:r><w:t>&amp;</w:t></w:r>"),
    *("<w:ins>", f"<w:ins>{_RUN}</w:ins>", f"<w:sdt><w:sdtContent>{_RUN}</w:sdtContent></w:sdt>"),
    *(f"<w:p>{_RUN}</w:p>", f"<w:r><w:pict><w:p>{_RUN}</w:p></w:pict></w:r>", f"<w:p>{_RUN}"),
    *('<w:bookmarkStart w:id="1"/>', f'<w:bookmarkEnd w:id="1"/>{_RUN}'),
    *('<w:r><w:fldChar w:fldCharType="begin"/></w:r>',),
    *('<w:r><w:fldChar w:fldCharType="separate"/></w:r>', "<w:r><w:tab/></w:r>"),
    *('<w:r><w:fldChar w:fldCharType="end"/></w:r>', "<w:docPr descr='x y'/>"),
]
_AROUND: dict[str, tuple[str, list[str]]] = {
    "runs": (f"<w:p>{_RUN}%s{_RUN}</w:p>", _IN_RUNS),
    "runs in a run": ("<w:p><w:r>%s</w:r></w:p>", ["<w:t>x</w:t>", "<w:tab/>", "<w:rPr/>"]),
    "runs in a text": (f"<w:p>{_RUN}<w:r><w:t>%s</w:t></w:r></w:p>", ["x ", "&amp;", "<!-- -->"]),
    "formulas": ("<s><f>%s</f></s>", ['"a"', '"', '"a*",', '"a,b"', "x", '"&lt;&gt;', '"* *']),
    "formulas in cells": ("<s>%s</s>", ['<f>"a"</f>', '<f>"*a*"</f>', "<is/>", "<t name='a'/>"]),
    "html": ("%s", [*_IN_TAGS, *_UNCLOSED, *_CHARACTERS]),
    "html tag": ("<p>x<a title='x y'%s>", [" ", " a", " a=", " a='b'", "='", '"', "/"]),
    "html in elements": (f"{'<b>' * 600}%s", ["<p><div>"]),
    "fragment": ("%s", _IN_TAGS),
    "text html": ("%s", [*_IN_TAGS, *_UNCLOSED]),
    "text xml": ("%s", [*_IN_TAGS, "<p>x</p>", "<p>x<i>y</i></p>"]),
    "text xml of tags": ("%s", [*_IN_TAGS, "<p>x</p>", "<i>x</i>"]),
    "text xml in elements": (f"{'<d>' * 200}%s{'</d>' * 200}", ["<a>x</a>", "x<b/>"]),
    "xml": ("<r>%s</r>", [*_IN_TAGS, "<b/>", "x<![CDATA[y]]>"]),
    "xml tag": ("<r><a b='x'%s/></r>", [" ", "\n", "\t"]),
    "xhtml": ("<html><body><p>%s</p></body></html>", _IN_TAGS),
    "xhtml tag": ("<html><body><img alt='x y'%s/></body></html>", [" ", "\n"]),
    "svg": ("<svg><text>%s</text></svg>", _IN_TAGS),
    "docbook": ("<article><para>%s</para></article>", [*_IN_TAGS, "<footnote>x</footnote>"]),
    "dita": ("<topic><p>%s</p></topic>", [*_IN_TAGS, "<fn>x</fn>"]),
    "android": ("<resources><string name='a'>%s</string></resources>", [*_IN_TAGS, "\\u", "\\'"]),
    "its attribute": (_ITS % (_RULE % "//@t") % "<a t='x y'%s/>", [" ", "\n"]),
    "its elements": (_ITS % (_RULE % "|".join(["//a"] * 200)), ["<a/>", "<b/>", "x<a>x</a>"]),
    "its paths": (
        _ITS % (_RULE % "|".join(f"//x{number}/a" for number in range(200))),
        ["<a/>", "<b/>"],
    ),
    "xliff 1": (_UNIT % "<source>Hi %s</source>", [*_IN_TAGS, "<bx id='1'/>x", "<ex id='1'/>x"]),
    "xliff 1 entity": (_UNIT % "<source>Hi &lt;a%s</source>", ["a", " ", "="]),
    "xliff 1 placeholder": (_UNIT % "<source>Hi %%%s</source>", ["0", "(", "-"]),
    "xliff 1 target": (_UNIT % "<source>Hi</source><target state='new'%s></target>", [" ", "\n"]),
    "xliff 1 state": (_UNIT % "<source>Hi</source><target %sstate='new'/>", [" ", "\n"]),
    "xliff 1 CDATA": (_UNIT % "<source>Hi <![CDATA[<%s]]></source>", ["a", " "]),
    "xliff 1 units": (
        "<xliff version='1.2'><file><body>%s</body></file></xliff>",
        ["<trans-unit><source>a</source></trans-unit>"],
    ),
    "xliff 1 notes": (_UNIT % "<source>Hi</source>%s", ["<note>x</note>"]),
    "xliff 2": (
        _SEGMENT % "Hi %s",
        [*_IN_TAGS, "<sm id='1' translate='no'/>x", "<em startRef='1'/>"],
    ),
    "qt": (
        "<TS><context><message><source>Hi %s</source></message></context></TS>",
        [*_IN_TAGS, "<byte value='1'/>"],
    ),
    "srt": ("%s", [*_CUES, *_CHARACTERS]),
    "srt cue": (_CUE % "%s", ["a ", "a\n", "- a\n", "<i>", "<i>a</i> ", "</i>", "{\\", "<a", "一"]),
    "vtt": ("WEBVTT\n\n%s", [*_CUES, "NOTE\n\n", *_CHARACTERS]),
    "vtt cue": (f"WEBVTT\n\n{_CUE % '%s'}", ["a ", "<v a>a\n", "<00:00:00.000>a", "&amp;", "<"]),
    "markdown": ("%s", [*_MARKDOWN, *_CHARACTERS]),
    "markdown paragraph": ("The text %s", [*_MARKDOWN, "a ", "a\n"]),
    "markdown link": ("[%s](b)", ["*a", "[a](b)", "![a](b) ", "`"]),
    "po": ("%s", ['msgid "a"\nmsgstr ""\n', "#, c\n", "# a\n", "\n"]),
    "po message": ('msgid "a"\n%s\nmsgstr ""\n', ['"a"\n', '"a\\n"\n', "# a\n"]),
    "po string": ('msgid "a %s"\nmsgstr ""\n', ["a", "a ", "\\n", "\\\\"]),
    "json": ('{%s"b": "Some text"}', ['"a": "b c",', '"a": {},', '"a": [],', " ", "1,"]),
    "yaml": ("%s", ["a: b c\n", "a: |\n b c\n", "- b c\n", "[", "{", "a", " ", "#", "&a ", "*a\n"]),
    "yaml value": ("a: b %s", ["a", "a ", "\n a", "#", ": "]),
    "yaml block": ("a: |\n  b %s", ["a", "a\n  ", "\n\n  a"]),
    "json string": ('{"a": "b %s"}', ["a", "a ", "\\u00e9", "\\n", "."]),
    "json list": ('{"a": [%s"b"]}', ['"b c",', "[],", "1,", "[", '"', "{"]),
    "json catalogue": (
        '{"sourceLanguage": "en", "strings": {%s"b": {}}}',
        [
            '"a b": {},',
            '"a": {"localizations": {"en": {}}},',
            '"a": {"localizations": {"de": {}}},',
        ],
    ),
    "properties": ("%s", ["a=b c\n", "#a\n", "a", " ", "\\\n", "\\", "a=", ":", "\r"]),
    "properties value": ("a=b c %s", ["a", "a ", "\\u00e9", "\\\n", "\\", "''", "{0"]),
    "strings": ("%s", ['"a" = "b c";\n', "/* a */", "// a\n", "/*", '"', "a", " ", '"a"', "="]),
    "strings value": ('"a" = "b %s";', ["a", "a ", "\\n", '\\"', "\\"]),
    "csv": ("a,b,c\n%s", ["a b,", "a b\n", '"a ""b""",', '"', '""', ",", " ", "\r"]),
    "csv head": ("a,%s", ["a,", "a", '"a",', ";"]),
    "pairs": (
        "<tmx><header srclang='en'/><body>%s</body></tmx>",
        ["<tu><tuv xml:lang='en'><seg>a</seg></tuv></tu>", "<tu/>", "<tu>", "<a/>", "a"],
    ),
    "pairs of a unit": (
        "<tmx><header srclang='en'/><body><tu>%s<tuv xml:lang='en'><seg>Hi</seg></tuv></tu></body>"
        "</tmx>",
        ["<tuv xml:lang='de'><seg>x</seg></tuv>", "<tuv><seg/></tuv>", "<note>x</note>", "<a>"],
    ),
    "pairs of texts": (
        "<tmx><header srclang='en'/><body><tu><tuv xml:lang='de'><seg>Hi</seg></tuv>"
        "<tuv xml:lang='en'><seg>Hi %s</seg></tuv></tu></body></tmx>",
        [*_IN_TAGS, "<bpt i='1'/>x", "<ept i='1'/>x", "<hi>x</hi>", "<hi>"],
    ),
    "terms": (
        "<?xml version='1.0'?><martif>%s</martif>",
        [
            "<termEntry><langSet xml:lang='en'><term>a</term></langSet></termEntry>",
            "<langSet xml:lang='en'><term>a</term></langSet>",
            "<term>",
            "a ",
        ],
    ),
    "tmx": (
        "<tmx><header srclang='en'/><body><tu><tuv xml:lang='en'><seg>Hi %s</seg></tuv></tu></body>"
        "</tmx>",
        [*_IN_TAGS, "<bpt i='1'/>x", "<hi>x</hi>"],
    ),
}


_FORMS = {
    "html": TextForm("html"),
    "xml": TextForm("xml"),
    "elements": TextForm("xml"),
    "tags": TextForm("xml", None, ["i"], ["p"], ["b"], outline_detection=False),
}


def _read_markup(name: str, document: str) -> None:
    """Read a document, and write it unchanged; whether it has its format does not matter."""
    with contextlib.suppress(ValueError):
        if name.startswith("text"):
            excerpt = excerpt_of(document, _FORMS[name.split()[-1]], 0)
        elif name.startswith("html"):
            excerpt = read_text(document, HtmlReader())
        elif name.split()[0] in READABLE and name != "xml":
            reading = Reading("en", "de", ("a",))
            reader = open_reader(name.split()[0], reading)
            assert not isinstance(reader, PackageReader)
            excerpt = read_text(document, reader)
            texts = (segment.text.swapcase() for segment in excerpt.segments)
            excerpt.written([Translation(text, 0, "stop") for text in texts])
        elif name.startswith("formulas"):
            quoted = Quoted()
            quoted.read([document.encode()])
            _ = document in quoted
            return
        elif name.startswith("runs"):
            excerpt = read_text(document, RunReader(WORD))
            texts = (segment.text.swapcase() for segment in excerpt.segments)
            excerpt.written([Translation(text, 0, "stop") for text in texts])
        elif name.startswith("pairs"):
            list(PairFile(io.BytesIO(document.encode()), "en", "de").pairs)
            return
        elif name.startswith("terms"):
            parse_glossary(document, "tbx")
            return
        elif name == "fragment":
            excerpt = read_text(document, XmlReader(GENERIC, encoding="utf-8", is_fragment=True))
        else:
            excerpt = read_text(document, XmlReader(source_language="en", target_language="de"))
        excerpt.written([None] * len(excerpt.segments))


def _repeated(around: str, part: str, size: int) -> str:
    return around % (part * (size // len(part)))


@pytest.mark.parametrize("name", _OF_TEXT)
def test_the_time_of_every_reader_of_text_is_linear(name: str) -> None:
    def read(text: str) -> None:
        with contextlib.suppress(
            ValueError, RecursionError, GatewayError, DragomanError, WrongType
        ):
            _OF_TEXT[name](text)

    size = _SENTENCES_SIZE if name.startswith("sentences") else _SIZE
    prose = _repeated("%s", _PROSE, size)
    words_s = fastest_s(lambda: re.findall(r"\w+|[^\w\s]", prose))
    prose_s = max(fastest_s(lambda: read(prose)), 2 * words_s)
    faults = [
        f"{part!r}: {fault}"
        for part in (*_CHARACTERS, *_PHRASES)
        if (fault := fault_of_growth(read, partial(_repeated, "%s", part), size, prose_s))
    ]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("name", _AROUND)
def test_the_time_of_every_reader_of_markup_is_linear(name: str) -> None:
    read: Callable[[str], Any] = partial(_read_markup, name)
    around, parts = _AROUND[name]
    form = name.split()[0]
    prose = _repeated(
        _AROUND[form][0] if form in _USUAL else "<p>%s</p>",
        _USUAL.get(form, "<i>The committee</i> approved the annual budget. "),
        _MARKUP_SIZE,
    )
    prose_s = fastest_s(lambda: read(prose))
    faults = [
        f"{part!r}: {fault}"
        for part in parts
        if (fault := fault_of_growth(read, partial(_repeated, around, part), _MARKUP_SIZE, prose_s))
    ]
    assert not faults, "\n".join(faults)
