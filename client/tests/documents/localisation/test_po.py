"""gettext PO: messages without a translation get one, and nothing else changes."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import pytest
from dragoman_client.files.file_formats import Reading, open_reader
from hypothesis import given
from hypothesis import strategies as st
from text_laws import NOISE, READING, check_text_file, real_files, texts_of
from translated_documents import hostile, identity, read, swapped, written

_HEADER = (
    'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n'
    '"Plural-Forms: nplurals={}; plural=(n > 1);\\n"\n\n'
)


def _skeleton(document: bytes) -> list[Any]:
    """The entries without the translations that were empty, and without the flag."""
    entries = []
    for entry in re.split(r"\n\s*\n", document.decode()):
        comments = [line for line in entry.split("\n") if line.startswith("#")]
        comments = [line.replace(" fuzzy,", "") for line in comments if line != "#, fuzzy"]
        strings = re.findall(
            r'^(?!#)(\w+(?:\[\d\])?)((?:\s+"(?:[^"\\]|\\.)*")+)', entry, re.MULTILINE
        )
        joined = [(key, re.sub(r'"\s*"|^\s*"|"\s*$', "", value)) for key, value in strings]
        entries.append((comments, [pair for pair in joined if not pair[0].startswith("msgstr")]))
    return entries


_STRINGS = st.text('ab "\\n%s{}é', max_size=20).map(
    lambda text: '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
)
_ENTRIES = st.one_of(
    *(
        _STRINGS.map(entry.format)
        for entry in (
            'msgid {}\nmsgstr ""\n',
            '# note\n#, c-format\nmsgctxt "x"\nmsgid ""\n{}\nmsgstr ""\n',
            'msgid "car"\nmsgid_plural {}\nmsgstr[0] ""\nmsgstr[1] ""\n',
            '#| msgid "old"\nmsgid {}\nmsgstr "done"\n',
            '#~ msgid {}\n#~ msgstr ""\n',
        )
    )
)


@given(st.lists(_ENTRIES, max_size=4), st.sampled_from([1, 2, 3, 6]), NOISE, st.integers(0, 99))
def test_random_files(entries: list[str], plurals: int, noise: str, seed: int) -> None:
    document = (_HEADER.format(plurals) + "\n".join(entries)).encode()
    check_text_file("po", document, _skeleton, noise, Random(seed))


@pytest.mark.parametrize("path", real_files("po"), ids=lambda path: path.name)
def test_real_files(path: Path) -> None:
    document = path.read_bytes()
    if path.name.startswith("tidy"):
        with pytest.raises(ValueError, match=r"^line 1963: '/\* option-name"):
            read(open_reader("po", READING), document)
        return
    assert written(open_reader("po", READING), document, identity) == document
    written(open_reader("po", READING), document, hostile('"\n\\'))


@pytest.mark.skipif(shutil.which("msgfmt") is None, reason="gettext is not installed")
@pytest.mark.parametrize("plurals", [1, 2, 3])
@pytest.mark.parametrize("noise", ["", '"', "\\", "\n", "\\n\n\t", "a b " * 50])
def test_msgfmt_accepts_the_result(plurals: int, noise: str, tmp_path: Path) -> None:
    document = _HEADER.format(plurals) + (
        '#, c-format\nmsgid ""\n"%d files\\n"\n"were found\\n"\nmsgstr ""\n\n'
        'msgid "one file"\nmsgid_plural "%d files"\nmsgstr[0] ""\nmsgstr[1] ""\n\n'
        'msgctxt "menu"\nmsgid "Open"\nmsgstr ""\n'
    )
    source, target = tmp_path / "a.po", tmp_path / "a.mo"
    source.write_bytes(written(open_reader("po", READING), document.encode(), hostile(noise)))
    check = ["msgfmt", "--check-format", "--check-domain", "--use-fuzzy", "-o", target, source]
    subprocess.run(check, check=True)
    assert target.stat().st_size > 100


def _translated(document: str, reading: Reading = READING) -> str:
    return written(open_reader("po", reading), document.encode(), swapped).decode()


@pytest.mark.parametrize(
    ("source", "translation"),
    [
        ('msgid "A"\nmsgstr ""\n', '#, fuzzy\nmsgid "A"\nmsgstr "a"\n'),
        ('msgid "_Open it"\nmsgstr ""\n', '#, fuzzy\nmsgid "_Open it"\nmsgstr "_oPEN IT"\n'),
        (
            'msgid "Go E&xit\\n"\nmsgstr ""\n',
            '#, fuzzy\nmsgid "Go E&xit\\n"\nmsgstr "gO e&XIT\\n"\n',
        ),
        (
            'msgid "<big><b>A</b>\\n<u>B</u> C</big>"\nmsgstr ""\n',
            '#, fuzzy\nmsgid "<big><b>A</b>\\n<u>B</u> C</big>"\n'
            'msgstr ""\n"<big><b>a</b>\\n"\n"<u>b</u> c</big>"\n',
        ),
        ('#, fuzzy, c\nmsgid "A"\nmsgstr ""\n', '#, fuzzy, c\nmsgid "A"\nmsgstr "a"\n'),
        ('#, c\nmsgid "A"\nmsgstr ""\n', '#, fuzzy, c\nmsgid "A"\nmsgstr "a"\n'),
        ('# a\n#| b\nmsgid "A"\nmsgstr ""\n', '# a\n#, fuzzy\n#| b\nmsgid "A"\nmsgstr "a"\n'),
        ('msgid "A"\nmsgstr "B"\n', 'msgid "A"\nmsgstr "B"\n'),
        ('#~ msgid "A"\n#~ msgstr ""\n', '#~ msgid "A"\n#~ msgstr ""\n'),
        ('msgid "1.5"\nmsgstr ""\n', 'msgid "1.5"\nmsgstr ""\n'),
        (
            'msgid ""\n"A\\n"\n"B\\n"\nmsgstr ""\n',
            '#, fuzzy\nmsgid ""\n"A\\n"\n"B\\n"\nmsgstr ""\n"a\\n"\n"b\\n"\n',
        ),
        ('msgid "A"\r\nmsgstr ""\r\n', '#, fuzzy\r\nmsgid "A"\r\nmsgstr "a"\r\n'),
    ],
)
def test_entries(source: str, translation: str) -> None:
    assert _translated(source) == translation


@pytest.mark.parametrize(
    ("language", "count"), [("ja", 1), ("de", 2), ("ru-RU", 3), ("ar", 6), ("x", 2)]
)
def test_plural_forms_of_the_target_language(language: str, count: int) -> None:
    document = 'msgid "A car"\nmsgid_plural "Cars"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    content = _translated(document, Reading("en", language))
    forms = re.findall(r'^msgstr\[(\d)\] "(.*)"', content, re.MULTILINE)
    assert forms == [(str(n), "cARS" if n or count == 1 else "a CAR") for n in range(count)]


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("&Open", "Open"),
        ("Sa_ve", "Save"),
        ("Save &as...", "Save as..."),
        *((text, text) for text in ("R&D", "a file_name", "&nbsp;", "a&b=c", "&A &B", "_x")),
    ],
)
def test_marks_of_keys_are_no_words(message: str, text: str) -> None:
    assert texts_of("po", f'msgid "{message}"\nmsgstr ""\n'.encode()) == [text]


def test_long_translations_are_wrapped() -> None:
    words = "some words " * 30
    content = _translated(f'msgid "{words.strip()}"\nmsgstr ""\n')
    lines = content.partition('msgstr ""\n')[2].splitlines()
    assert max(map(len, lines)) <= 79
    assert "".join(line[1:-1] for line in lines) == words.strip().swapcase()


def test_the_header_names_the_encoding() -> None:
    document = _HEADER.format(2).replace("UTF-8", "ISO-8859-1") + 'msgid "Öl"\nmsgstr ""\n'
    assert texts_of("po", document.encode("latin-1")) == ["Öl"]


def test_a_template_gets_the_encoding_of_its_translations() -> None:
    content = _translated(_HEADER.format(2).replace("UTF-8", "CHARSET") + 'msgid "A"\nmsgstr ""\n')
    assert "charset=UTF-8\\n" in content


@pytest.mark.parametrize("content", [b"Hello", b'msgid "a', b'"a"\n', b'msgid "a"b"\n', b"\xff"])
def test_other_files_are_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"^(line|byte) \d"):
        read(open_reader("po", READING), content)
