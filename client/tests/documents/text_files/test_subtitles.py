"""Subtitles: SRT and WebVTT."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from dragoman_client.files.file_formats import open_reader
from dragoman_documents.core.segments import Segment
from dragoman_options.markup import PlacedCodes
from hypothesis import given
from hypothesis import strategies as st
from text_laws import NOISE, READING, check_text_file, real_files, texts_of
from translated_documents import identity, read, swapped, written

_TIMES = "00:00:{:02},000 --> 00:00:{:02},500"
_TAG = {"srt": r"</?[A-Za-z][^<>]*>|\{\\[^{}]*\}", "vtt": r"<[^<>]*>"}


def _file(texts: Sequence[str], *, is_vtt: bool = False, times: str = _TIMES) -> bytes:
    cues = (f"{n + 1}\n{times.format(n, n)}\n{text}\n" for n, text in enumerate(texts))
    content = "\n".join(["WEBVTT\n"] * is_vtt + list(cues))
    return (
        content.replace(",000 ", ".000 ").replace(",500", ".500") if is_vtt else content
    ).encode()


def _skeleton(name: str, document: bytes) -> tuple[list[str], list[str]]:
    """All lines but those of cues, and the tags of the cues."""
    encoding = "utf-16" if document.startswith(b"\xff\xfe") else "utf-8-sig"
    lines = re.split(r"\r\n?|\n", document.decode(encoding))
    others, tags, is_text = list[str](), list[str](), False
    for index, line in enumerate(lines):
        if "-->" in line and re.match(r"\s*[\d:]+[.,]\d+ *-->", line):
            others.append(line)
            is_text = True
        elif not line.strip():
            is_text = is_text and name == "srt"
        elif not is_text or (
            line.strip().isdigit() and "-->" in "".join(lines[index + 1 : index + 2])
        ):
            others.append(line)
        else:
            tags += re.findall(_TAG[name], line)
    return others, sorted(tags)


_WORDS = st.sampled_from(
    [
        *("I saw ", "the house", " of a friend, "),
        *("He left. ", "It was late! ", "Zangemann ", "\n"),
        *("<i>quickly</i> ", "<b>", "</i>", "{\\an8}"),
        *("<v Ann>", "- No.\n- Yes.", "\r\n", "&amp; "),
        *("<c.a>red</c> ", "<00:00:01.000>", "[music]", "♪ la la", "MAN: Hello", "a < b ", "<3"),
    ]
)
_CUES = st.lists(
    st.lists(_WORDS, max_size=4).map(lambda words: re.sub(r"\s*\n\s*", "\n", "".join(words))),
    max_size=6,
)


@pytest.mark.parametrize("name", ["srt", "vtt"])
@given(_CUES, NOISE, st.integers(0, 99))
def test_random_subtitles(name: str, texts: list[str], noise: str, seed: int) -> None:
    document = _file(texts, is_vtt=name == "vtt")
    if name == "srt" and not texts:
        return
    check_text_file(name, document, lambda content: _skeleton(name, content), noise, Random(seed))


@pytest.mark.parametrize(
    "path", [*real_files("srt"), *real_files("vtt")], ids=lambda path: path.name
)
def test_real_subtitles(path: Path) -> None:
    document, name = path.read_bytes(), path.suffix[1:]
    if "non-utf8" in path.name:
        with pytest.raises(ValueError, match="byte 42: not valid UTF-8: convert"):
            read(open_reader(name, READING), document)
        return
    noise = "<b>{\\x}\n\n7\n00:00:01,000 --> 00:00:02,000\n<"
    check_text_file(name, document, lambda content: _skeleton(name, content), noise, Random(0))


@pytest.mark.parametrize(
    ("cues", "texts"),
    [
        (["She lives in a cabin", "near the town."], ["She lives in a cabin near the town."]),
        (["A friend of", "Zangemann left."], ["A friend of Zangemann left."]),
        (["He said no.", "he left."], ["He said no.", "he left."]),
        (["He left. And she", "stayed. Then"], ["He left. And she stayed. Then"]),
        (["<i>I saw</i>", "<i>you there.</i>"], ["I saw you there."]),
        (["{\\an8}I saw", "{\\an8}you there."], ["I saw you there."]),
        (["I saw\nyou", "there."], ["I saw you there."]),
        (["- No.\n- Yes."], ["- No.\u2028- Yes."]),
        (["I saw [", "[music]", "you."], ["I saw [", "[music]", "you."]),
        (
            ["I live on an island", "On the back of a whale"],
            ["I live on an island", "On the back of a whale"],
        ),
    ],
)
def test_a_sentence_over_several_cues_is_one_text(cues: list[str], texts: list[str]) -> None:
    assert texts_of("srt", _file(cues)) == texts


def test_text_behind_an_empty_line_is_of_the_same_cue() -> None:
    document = b"7\n" + _file(["I saw.\n\n12\nYou.\n", "Hi."])
    assert texts_of("srt", document) == ["I saw.", "12\nYou.".replace("\n", " "), "Hi."]
    assert written(open_reader("srt", READING), document, identity) == document


def test_a_pause_ends_a_text() -> None:
    assert texts_of("srt", _file(["I saw", "you."], times="00:{:02}:00,0 --> 00:{:02}:01,0")) == [
        "I saw",
        "you.",
    ]


def _translated(document: bytes, target: str, *borders: int) -> tuple[bytes, list[str]]:
    """A file with one text, translated, with its codes at the given offsets."""
    reader = open_reader("srt", READING)
    placed = PlacedCodes(tuple((at, at + 1) for at in borders))
    content = b""
    for part in [*reader.feed(document), *reader.close()]:
        content += part.write(target, placed) if isinstance(part, Segment) else part.content
    return content, list(reader.warnings)


@pytest.mark.parametrize(
    ("border", "texts"),
    [
        (6, ["Ich sah", "dich dort gestern."]),
        (7, ["Ich sah", "dich dort gestern."]),
        (10, ["Ich sah dich", "dort gestern."]),
        (0, ["Ich", "sah dich dort gestern."]),
        (99, ["Ich sah dich dort", "gestern."]),
    ],
)
def test_a_translation_is_divided_between_words_near_the_border(
    border: int, texts: list[str]
) -> None:
    source = _file(["I saw you", "there yesterday."])
    assert _translated(source, "Ich sah dich dort gestern.", border)[0] == _file(texts)


def test_cues_get_their_parts_in_order() -> None:
    source = _file(["one", "two", "three"])
    assert _translated(source, "eins zwei drei", 10, 4)[0] == _file(["eins", "zwei", "drei"])
    assert _translated(source, "eins", 0, 0)[0] == _file(["eins", "", ""])
    assert _translated(source, "一二三四", 1, 2)[0] == _file(["一", "二", "三四"])


@pytest.mark.parametrize("lines", range(1, 5))
def test_lines_are_as_many_as_in_the_source_and_of_similar_lengths(lines: int) -> None:
    source = _file(["\n".join(["some words here"] * lines)])
    target = "einige andere Wörter, die hier stehen und länger sind als zuvor"
    content = _translated(source, target)[0].decode().split("500\n")[1].strip().split("\n")
    assert " ".join(content) == target
    assert len(content) == lines
    assert max(map(len, content)) - min(map(len, content)) <= 16


def test_tags_stay_in_one_cue() -> None:
    document = _file(["I saw the <i>old", "house</i> there."])
    assert written(open_reader("srt", READING), document, identity) == document
    document = _file(["I saw <i>the old</i> house", "and <b>you</b> there."])
    reader = open_reader("srt", READING)
    content = b""
    for part in [*reader.feed(document), *reader.close()]:
        if isinstance(part, Segment):
            placed = PlacedCodes(((4, 19), (8, 9), (21, 23)))
            content += part.write("Das alte Haus und du dort.", placed)
        else:
            content += part.content
    for cue in content.decode().split("\n\n"):
        assert cue.count("<i>") == cue.count("</i>")
        assert cue.count("<b>") == cue.count("</b>")
    assert content.count(b"<i>") == content.count(b"<b>") == 1


def test_reading_speed_is_reported() -> None:
    source = _file(["Hi."] * 2)
    reader = open_reader("srt", READING)
    translated = [
        part.write("Das ist eine sehr lange Übersetzung.", PlacedCodes())
        for part in [*reader.feed(source), *reader.close()]
        if isinstance(part, Segment)
    ]
    assert len(translated) == 2
    [message] = reader.warnings
    assert message == (
        "2 of 2 subtitles have more than 20 characters a second, 0 in the source; "
        "most has the one at 00:00:01, with 72"
    )


def test_slow_subtitles_are_not_reported() -> None:
    reader = open_reader("srt", READING)
    written(reader, _file(["Hello."]), swapped)
    assert not reader.warnings


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("srt", b"Hello.\n", "no subtitle has times"),
        ("srt", b"1\n00:00 -> 00:01\nHi\n", "no subtitle has times"),
        ("vtt", b"1\n00:00.000 --> 00:01.000\nHi\n", "line 1: a WebVTT file begins with WEBVTT"),
        ("srt", b"\xff\xff\xff", "byte 0: not valid UTF-8"),
        ("srt", b"1\n" * (5 << 20), "more than 8 MB"),
    ],
)
def test_other_files_are_refused(name: str, content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(open_reader(name, READING), content)


@pytest.mark.parametrize("name", ["srt", "vtt"])
def test_a_file_without_subtitles_stays(name: str) -> None:
    document = b"WEBVTT\n" if name == "vtt" else b"\n"
    assert written(open_reader(name, READING), document, identity) == document
