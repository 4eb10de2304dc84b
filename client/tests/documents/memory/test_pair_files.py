"""Tests of the pairs of bilingual files: TMX in and out, XLIFF, Qt ts and PO."""

from __future__ import annotations

import io
import random
from xml.etree import ElementTree

import pytest
from dragoman_documents.memory.pair_files import PairFile, write_tmx
from dragoman_documents.memory.pairs import Pair
from dragoman_options.markup import Code, Markup

_XLIFF_1 = """<xliff version="1.2"><file source-language="en" target-language="de"><body>{}</body>
</file></xliff>"""
_XLIFF_2 = """<xliff version="2.0" srcLang="en" trgLang="de"><file id="f"><unit id="u">{}</unit>
</file></xliff>"""
_TMX = """<?xml version="1.0"?><!DOCTYPE tmx SYSTEM "tmx14.dtd"><tmx version="1.4">
<header srclang="en"/><body>{}</body></tmx>"""


def _pairs(
    written: str | bytes, source: str | None = "en", target: str | None = "de"
) -> list[Pair]:
    content = written if isinstance(written, bytes) else written.encode()
    return list(PairFile(io.BytesIO(content), source, target).pairs)


def _unit(source: str, target: str, languages: tuple[str, str] = ("en", "de")) -> str:
    tuvs = zip(languages, (source, target), strict=True)
    segs = (f'<tuv xml:lang="{language}"><seg>{seg}</seg></tuv>' for language, seg in tuvs)
    return f"<tu>{''.join(segs)}</tu>"


def _random_pair(chance: random.Random) -> Pair:
    """A pair with nested and empty codes around random words, which the translation swaps."""
    words = [chance.choice(["a<b", "&amp;", "x", '"', "größe", "漢"]) for _ in "123456"]
    first, second = f"p {' '.join(words[:3])} q", f"r {' '.join(words[3:])} s"
    source, target = f"b {first} {second} e", f"c {second} {first} f"
    middle, end = 2 + len(first), len(source) - 2
    codes = (Code(2, middle), Code(4, 4, 0), Code(middle + 1, end))
    begin = 3 + len(second)
    placed = ((begin, begin + len(first)), (begin + 2, begin + 2), (2, 2 + len(second)))
    Markup(codes).check(source)
    return Pair(source, target, codes, placed)


@pytest.mark.parametrize("seed", range(5))
def test_what_is_written_as_tmx_is_read_again(seed: int) -> None:
    """The same texts with the same codes, in the same order."""
    chance = random.Random(seed)
    pairs = [_random_pair(chance) for _ in range(20)] + [Pair("plain", "schlicht")]
    written = b"".join(write_tmx(pairs, ("en", "pt-BR")))
    root = ElementTree.fromstring(written)
    assert len(root.findall("body/tu")) == 21
    assert root.get("version") == "1.4"
    file = PairFile(io.BytesIO(written))
    for pair, expected in zip(file.pairs, pairs, strict=True):
        assert pair == expected
    assert file.languages == ("en", "pt-BR")
    assert file.skipped == 0


def test_a_line_break_is_written_as_one() -> None:
    """Its character in a text is none of the file."""
    (pair,) = _pairs(_TMX.format(_unit("One<ph type='lb'/>two", "Eins<ph type='lb'/>zwei")))
    written = b"".join(write_tmx([pair], ("en", "de")))
    assert written.count(b'type="lb"') == 2
    assert _pairs(written) == [pair]


@pytest.mark.parametrize(
    ("source", "target", "placed"),
    [
        (
            "z <hi x='1'>a</hi> <hi x='2'>b</hi> c",
            "d <hi x='2'>B</hi> <hi x='1'>A</hi> e",
            ((4, 5), (2, 3)),
        ),
        (
            "z <bpt i='1'/>a<ept i='1'/> <bpt i='2'/>b<ept i='2'/> c",
            "z <bpt i='2'/>B<ept i='2'/> <bpt i='1'/>A<ept i='1'/> c",
            ((4, 5), (2, 3)),
        ),
        ("z <hi>a</hi> <hi>b</hi> c", "z <hi>a</hi> <hi>b</hi> c", ((2, 3), (4, 5))),
        ("z <hi>a</hi> c", "z <hi type='b'>a</hi> c", None),
        ("z <hi x='1'>a</hi> c", "z <hi x='2'>a</hi> c", None),
        ("z <hi x='1'>a</hi> c", "z a c", None),
        (
            "z <hi x='1'>a <hi x='2'>b</hi> c</hi> d",
            "z <hi x='2'>a <hi x='1'>b</hi> c</hi> d",
            None,
        ),
    ],
)
def test_elements_belong_together_by_their_ids(
    source: str, target: str, placed: tuple[tuple[int, int], ...] | None
) -> None:
    """Also in another order; a unit with elements that have no partner is left out."""
    pairs = _pairs(_TMX.format(_unit(source, target)))
    assert [pair.placed for pair in pairs] == ([] if placed is None else [placed])


def test_what_xml_cannot_hold_is_left_out() -> None:
    """Control characters and halves of characters."""
    written = b"".join(write_tmx([Pair("a\0b\x1bc\ud800d", "\ufffe")], ('en"<', "de")))
    assert ElementTree.fromstring(written).find("body/tu/tuv/seg").text == "abcd"  # type: ignore[union-attr]


def test_the_languages_of_a_tmx_file() -> None:
    """They may be given, in other spellings, and units without them are counted."""
    units = [
        _unit("One.", "Eins.", ("en-US", "de")),
        _unit("Two.", "Deux.", ("en-GB", "fr")),
        _unit("Three.", "Drei.", ("EN", "de-AT")),
    ]
    content = _TMX.format("".join(units)).encode()
    for target, expected in (
        ("de", ["Eins.", "Drei."]),
        ("fr-CA", ["Deux."]),
        (None, ["Eins.", "Drei."]),
    ):
        file = PairFile(io.BytesIO(content), "en", target)
        assert [pair.target for pair in file.pairs] == expected
        assert file.skipped == 3 - len(expected)
    assert [pair.source for pair in _pairs(content, "de", "en")] == ["Eins.", "Drei."]


def test_only_reviewed_translations_of_xliff_are_read() -> None:
    """Those of a machine, and those that are missing, are not."""
    units = [
        "<trans-unit><source>Save <g id='1'>all</g> now</source>"
        "<target>Jetzt <g id='1'>alles</g> sichern</target></trans-unit>",
        "<trans-unit><source>A text.</source><target state='new'>x</target></trans-unit>",
        "<trans-unit><source>A text.</source></trans-unit>",
        "<trans-unit><source>A text.</source><target state='needs-review-translation' "
        "state-qualifier='mt-suggestion'>x</target></trans-unit>",
        "<trans-unit><source>A <g id='1'>text</g> b</source><target>Text</target></trans-unit>",
        "<trans-unit><source>One. Two.</source><seg-source><mrk mtype='seg' mid='1'>One.</mrk> "
        "<mrk mtype='seg' mid='2'>Two.</mrk></seg-source><target><mrk mtype='seg' mid='1'>Eins."
        "</mrk> <mrk mtype='seg' mid='2'>Zwei.</mrk></target></trans-unit>",
    ]
    assert _pairs(_XLIFF_1.format("".join(units))) == [
        Pair("Save all now", "Jetzt alles sichern", (Code(5, 8),), ((6, 11),)),
        Pair("One.", "Eins."),
        Pair("Two.", "Zwei."),
    ]
    segment = "<segment {}><source>A <pc id='1'>text</pc> b</source><target>Ein <pc id='1'>Text"
    segment += "</pc> b</target></segment>"
    assert _pairs(_XLIFF_2.format(segment.format(""))) == [
        Pair("A text b", "Ein Text b", (Code(2, 6),), ((4, 8),))
    ]
    for state in ("state='initial'", "state='translated' subState='dragoman:machine-translation'"):
        assert _pairs(_XLIFF_2.format(segment.format(state))) == []
    with pytest.raises(ValueError, match="its translations are from en to de, not from en to fr"):
        _pairs(_XLIFF_1.format(units[0]), "en", "fr")


@pytest.mark.parametrize(
    "content",
    [
        _XLIFF_1.format("<trans-unit><source>Tea</source><target>Tee</target></trans-unit>"),
        _XLIFF_2.format("<segment><source>Tea</source><target>Tee</target></segment>"),
        '<TS language="de" sourcelanguage="en"><context><message><source>Tea</source>'
        "<translation>Tee</translation></message></context></TS>",
        'msgid ""\nmsgstr ""\n"Language: de\\n"\n\nmsgid "Tea"\nmsgstr "Tee"\n',
    ],
    ids=["xliff 1", "xliff 2", "qt", "po"],
)
def test_the_languages_that_a_file_declares(content: str) -> None:
    """They are taken unless others are given, which must be the same; PO has no source."""
    is_po = content.startswith("msgid")
    file = PairFile(io.BytesIO(content.encode()), None, None)
    assert list(file.pairs) == [Pair("Tea", "Tee")]
    assert file.languages == ("und" if is_po else "en", "de")
    assert len(_pairs(content, "en-GB", "de_AT")) == 1
    for source, target in (("en", "fr"), *(() if is_po else (("pl", "de"),))):
        with pytest.raises(ValueError, match="its translations are"):
            _pairs(content, source, target)


def test_other_scripts_are_other_languages() -> None:
    """If both tags name one."""
    content = _TMX.format(_unit("Tea", "茶", ("en", "zh-Hant-TW")))
    for target, number in (("zh-Hans", 0), ("zh_hant", 1), ("zh-TW", 1), ("zh", 1)):
        assert len(_pairs(content, "en", target)) == number


def test_qt_and_po() -> None:
    """Unfinished and fuzzy translations are left out; of a plural the first and the last count."""
    ts = (
        '<TS language="de"><context><message><source>Hello %1</source><translation>Hallo %1'
        '</translation></message><message><source>Bye</source><translation type="unfinished">x'
        "</translation></message></context></TS>"
    )
    assert _pairs(ts) == [Pair("Hello %1", "Hallo %1")]
    po = (
        'msgid ""\nmsgstr "Content-Type: text/plain; charset=ISO-8859-1\\n"\n\n'
        'msgid "one"\nmsgid_plural "many"\nmsgstr[0] "ein"\nmsgstr[1] "gr\xf6\xdfer"\n\n'
        '#, fuzzy, c-format\nmsgid "fuzzy"\nmsgstr "x"\n\nmsgid "none"\nmsgstr ""\n\n'
        '#: a.c\nmsgctxt "c"\nmsgid ""\n"long "\n"text\\n"\nmsgstr "Text\\n"\n'
    )
    assert _pairs(po.encode("latin-1")) == [
        Pair("one", "ein"),
        Pair("many", "größer"),
        Pair("long text\n", "Text\n"),
    ]


@pytest.mark.parametrize(
    "content",
    [
        b"PK\x03\x04",
        b"<html><p>a</p></html>",
        b"<tmx",
        _TMX.format("<tu>").encode(),
        b'<!DOCTYPE tmx [<!ENTITY a "b"><!ENTITY c "&a;&a;">]><tmx/>',
        b'<!DOCTYPE tmx [<!ENTITY a SYSTEM "file:///etc/passwd">]><tmx>&a;</tmx>',
        _TMX.format(f"<tu>{'x' * (1 << 24)}</tu>").encode(),
        b'msgid "a"\nmsgstr "b"\n' * 500_000,
        b'msgid "a\xff"\nmsgstr "b"\n',
    ],
    ids=lambda content: repr(content[:30]),
)
def test_other_files_are_refused_in_one_line(content: bytes) -> None:
    """Also those that declare entities of other files, and those that are too large."""
    with pytest.raises(ValueError, match=r"\A[^\n]+\Z"):
        _pairs(content)


def test_deep_and_empty_files() -> None:
    """Nothing in them is a pair."""
    assert _pairs(b"") == []
    assert _pairs(_TMX.format("")) == []
    assert _pairs("<tmx/>") == []
    deep = "<hi>" * 5000 + "x" + "</hi>" * 5000
    assert [pair.source for pair in _pairs(_TMX.format(_unit(f"a {deep} b", f"c {deep} d")))] == [
        "a x b"
    ]
