"""Markdown: blocks, elements in text, and the escapes of translations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from dragoman_client.files.file_formats import open_reader
from dragoman_documents.core.segments import Segment
from dragoman_options.markup import PlacedCodes
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markup_laws import check_document
from text_laws import NOISE, READING, real_files, texts_of
from translated_documents import (
    Translator,
    blank,
    careless,
    hostile,
    read,
    shuffled,
    swapped,
    written,
)

_PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
_EMPHASIS = {"em_open", "em_close", "strong_open", "strong_close", "s_open", "s_close"}
_TEXT = {"text", "softbreak", "text_special"}
_CONTENT = {"fence", "code_block", "code_inline", "html_block", "html_inline"}


def tokens(document: bytes) -> list[Any]:
    """The structure of a document without its texts, by another parser."""
    structure: list[Any] = []

    def add(several: Sequence[Token]) -> None:
        for token in several:
            if token.type == "inline":
                add(token.children or ())
            elif token.type not in _TEXT:
                attributes = sorted(
                    (k, str(v)) for k, v in token.attrs.items() if k not in ("title", "alt")
                )
                content = token.content if token.type in _CONTENT else ""
                content = (
                    "".join(re.findall("<[^>]*>", content)) if "html" in token.type else content
                )
                structure.append((token.type, token.tag, attributes, content))

    add(_PARSER.parse(document.decode("utf-8-sig")))
    return structure


def blocks(structure: list[Any]) -> list[Any]:
    """The tokens that are not in a text."""
    return [
        token
        for token in structure
        if token[0].startswith(
            (
                *("heading", "paragraph", "list", "bullet", "ordered"),
                *("blockquote", "t", "fence", "code_block", "html_block", "hr"),
            )
        )
    ]


def _check(document: bytes, noise: str, random: Random) -> None:
    def translated(translate: Translator) -> list[Any]:
        content = written(open_reader("markdown", READING), document, translate)
        return tokens(content)

    check_document(lambda: open_reader("markdown", READING), document, random)
    before = tokens(document)
    for translate in (swapped, hostile(noise), hostile(f"{noise}\n"), blank(" "), blank("\n")):
        assert translated(translate) == before
    moved = translated(shuffled(random))
    assert sorted(map(str, _without(moved))) == sorted(map(str, _without(before)))
    for translate in (shuffled(random), careless(random)):
        assert blocks(translated(translate)) == blocks(before)


def _without(structure: list[Any]) -> list[Any]:
    return [token for token in structure if token[0] not in _EMPHASIS | {"hardbreak"}]


_INLINES = st.sampled_from(
    [
        *("a word", "the *red* house", "**bold words**"),
        *("_x_ and __y__", "~~old~~ new", "`code()`"),
        *("``a`b``", "[link](a.html)", '[a *b* c](<x y> "Title")'),
        *("![picture](p.png)", "<b>bold</b>"),
        *("[known]", "[known][]", "[text][known]", "[unknown]", "<https://a.b/c_d>", "&amp; more"),
        *(r"\*literal\*", "a_b_c", "2 * 3", "x < y", "<br>", "line  \nbreak", "line\\\nbreak"),
        *("***both***", "soft\nbreak", "1986\\. A year"),
        *("# no", "- no", "fin!", "*a **b** c*", "**", "*"),
    ]
)
_TEXTS = st.lists(_INLINES, min_size=1, max_size=4).map(" ".join)
_BLOCKS = st.one_of(
    _TEXTS,
    _TEXTS.map(lambda text: "# " + text.replace("\n", " ")),
    _TEXTS.map(lambda text: text.replace("\n", " ") + "\n==="),
    _TEXTS.map(lambda text: "- " + text.replace("\n", "\n  ")),
    _TEXTS.map(lambda text: "3) " + text.replace("\n", "\n   ") + "\n\n   another"),
    _TEXTS.map(lambda text: "> " + text.replace("\n", "\n> ")),
    _TEXTS.map(lambda text: "- [ ] > " + text.replace("\n", " ")),
    _TEXTS.map(lambda text: "> quoted\n" + text.replace("\n", " ")),
    st.sampled_from(
        [
            *("```\ncode *x*\n```", "    code", "---", "***", "<div>\n\nin it\n\n</div>"),
            *(
                "| a | b *c* |\n|---|:-:|\n| `x` | d\\|e |",
                "<p>HTML <b>text</b></p>",
                "<!-- a\n\nb -->",
            ),
            *("[known]: /url 'Title'", "- one\n  - two\n\n    two more\n- three", "~~~ text\n> no"),
        ]
    ),
)


@given(st.lists(_BLOCKS, max_size=5), NOISE, st.integers(0, 99))
def test_random_documents(several: list[str], noise: str, seed: int) -> None:
    document = "\n\n".join([*several, "[known]: /known\n"]).encode()
    _check(document, noise, Random(seed))


@given(st.text("ab *_`[]()<>!#-+=|\\~&;:1.\n\t\"'", max_size=40), NOISE, st.integers(0, 99))
@example("*a\n===", "", 0)
def test_any_text_is_read(text: str, noise: str, seed: int) -> None:
    random, document = Random(seed), text.encode()
    check_document(lambda: open_reader("markdown", READING), document, random)
    for translate in (swapped, hostile(noise), shuffled(random), careless(random)):
        written(open_reader("markdown", READING), document, translate)


@pytest.mark.parametrize("path", real_files("markdown"), ids=lambda path: "-".join(path.parts[-2:]))
def test_real_files(path: Path) -> None:
    document = path.read_bytes()
    check_document(lambda: open_reader("markdown", READING), document, Random(0))
    before = tokens(document)
    for translate in (swapped, hostile("*_`[x](y)|<b># "), hostile("\n1. - "), blank(" ")):
        after = tokens(written(open_reader("markdown", READING), document, translate))
        assert after == before


def _texts(markdown: str) -> list[str]:
    return texts_of("markdown", markdown.encode())


@pytest.mark.parametrize(
    ("markdown", "texts"),
    [
        ("---\ntitle: Hello\n---\n\nThe text.", ["The text."]),
        ("---\r\ntitle: Hello\r\n---\r\n\r\nThe text.", ["The text."]),
        ("$$ a = b\nc = d $$\n\nThe text.", ["The text."]),
        ("{% highlight c %}\nint a\n{% endhighlight %}\n\nThe text.", ["The text."]),
        ("[TOC]\n\n*[HTML]: A language\n\nThe text.", ["The text."]),
        ("Term\n:   Its meaning\n    goes on.\n", ["Term", "Its meaning goes on."]),
        ('=== "Tab"\n\n    The text.\n', ["The text."]),
        ("> [!NOTE]\n> A *red* car.\n", ["A red car."]),
        ("!!! note\n    A car.\n", ["A car."]),
        ("- [x] Done\n- [ ] Not done", ["Done", "Not done"]),
        ("A note.[^1]\n\n[^1]: The note\n    goes on.\n", ["A note.", "The note goes on."]),
        ("| Name | Use |\n|---|---|\n| `x` | It *is*. |", ["Name", "Use", "It is."]),
        ("# Title {#anchor}\n\n## Other ##", ["Title", "Other"]),
        ("One line\ngoes on.\n\nAnother.", ["One line goes on.", "Another."]),
        ("Press `Enter` now", ["Press Enter now"]),
        ('See [the page](a.html "A title").', ["See the page.", "A title"]),
        ("![A picture](a.png)", ["", "A picture"]),
        ("A &lt; b \\* c", ["A < b * c"]),
        ("<div>\n<p>Some <b>text</b></p>\n</div>", ["Some text"]),
        ('{{Sidebar}}\n\nThe {{htmlelement("a")}} element', ['The {{htmlelement("a")}} element']),
        ("```\ncode\n```\n\n    more code\n\n$$\nx\n$$", []),
        ("[a]: /x 'Title'\n[b]: /y\n  'Title'\n\nText", ["Text"]),
    ],
)
def test_texts_of_documents(markdown: str, texts: list[str]) -> None:
    parts = read(open_reader("markdown", READING), markdown.encode())
    segment_texts = list[str]()
    for part in parts:
        if isinstance(part, Segment):
            segment_texts += [part.text, *(attribute.text for attribute in part.attributes)]
    assert segment_texts == texts


@pytest.mark.parametrize(
    ("source", "translation", "codes", "expected"),
    [
        ("a", "1. x", (), r"1\. x"),
        ("a", "- x", (), r"\- x"),
        ("a", "# x", (), r"\# x"),
        ("a", "> x", (), r"\> x"),
        ("a", "=== ", (), r"\==="),
        ("a", "*x* _y_ `z` [b](c)", (), r"\*x\* \_y\_ \`z\` \[b\](c)"),
        ("a", "snake_case, C#, 2 - 1, x < y, R&D", (), "snake_case, C#, 2 - 1, x < y, R&D"),
        ("a", "<i>x</i> &amp;", (), r"\<i>x\</i> \&amp;"),
        ("# a", "x #", (), r"# x \#"),
        ("| a |\n|---|", "x | y", (), "| x \\| y |\n|---|"),
        ("*a* b", "B A", ((2, 3),), "B *A*"),
        ("*a* b", "B A x", ((1, 4),), "B *A* x"),
        ("*a* b", "B", ((1, 1),), "*B*"),
        ("_a_ b", "Bahn", ((1, 3),), "_Bahn_"),
        ("**a** b", 'Das "Auto"s.', ((4, 10),), 'Das **"Auto"s.**'),
        ("[a](x) b", "Hallo! Welt", ((7, 11),), "Hallo! [Welt](x)"),
        ("[a](x) b", "Hallo!Welt", ((6, 10),), r"Hallo\![Welt](x)"),
        ("![a] b\n\n[a]: /x", "B", ((0, 0),), "![B][a] B\n\n[a]: /x"),
        ("[a] b\n\n[a]: /x", "B A", ((2, 3),), "B [A][a]\n\n[a]: /x"),
    ],
)
def test_translations_are_escaped(
    source: str, translation: str, codes: tuple[tuple[int, int], ...], expected: str
) -> None:
    def translate(_segment: Segment) -> tuple[str, PlacedCodes]:
        return translation, PlacedCodes(codes)

    assert (
        written(open_reader("markdown", READING), source.encode(), translate).decode() == expected
    )


@pytest.mark.parametrize("prefix", ["", "> ", "  "])
def test_a_wrapped_paragraph_is_wrapped_again(prefix: str) -> None:
    lines = ["The words of this paragraph are wrapped", "by hand, and go on here."]
    item = prefix.strip() == "" and prefix
    first = "- " if item else prefix
    source = first + f"\n{prefix}".join(lines)
    target = (
        "Die Wörter dieses Absatzes sind von Hand umbrochen, und gehen - 2. hier + weiter # so."
    )

    def translate(_segment: Segment) -> tuple[str, PlacedCodes]:
        return target, PlacedCodes()

    content = written(open_reader("markdown", READING), source.encode(), translate).decode()
    wrapped = content.removeprefix(first).split(f"\n{prefix}")
    assert " ".join(wrapped) == target
    assert max(map(len, wrapped)) <= len(lines[0])
    assert all(re.match(r"\w", line) and not line[0].isdigit() for line in wrapped)


@pytest.mark.parametrize(
    ("source", "translation"),
    [
        ("See [[A Page|here]] and [[my_page]].", "sEE [[A Page|here]] AND [[my_page]]."),
        ("See [[1]](a.html).", "sEE [\\[1\\]](a.html)."),
        ("![A cat](a.png){width=300} is", "![a CAT](a.png){width=300} IS"),
    ],
)
def test_what_other_programs_read_is_kept(source: str, translation: str) -> None:
    assert (
        written(open_reader("markdown", READING), source.encode(), swapped).decode() == translation
    )


def test_titles_and_pictures_are_escaped() -> None:
    source = b'![a](b.png "c") and [d](e "f")'
    content = written(open_reader("markdown", READING), source, hostile('"](x)'))
    image, link = _PARSER.parse(content.decode())[1].children or [], tokens(content)
    assert [token[0] for token in link if token[0] in ("image", "link_open")] == [
        "image",
        "link_open",
    ]
    picture = next(token for token in image if token.type == "image")
    assert picture.content == r'"](x)a"](x)' or picture.children
    assert picture.attrs["title"] == '"](x)c"](x)'


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_encodings(encoding: str) -> None:
    source = "# Ä *red* car\n\n<p>Text</p>\n".encode(encoding)
    content = written(open_reader("markdown", READING), source, swapped).decode(encoding)
    assert content.startswith("# Ä *RED* CAR\n")
