"""Documents of running text: paragraphs, layout and files."""

import io
import json
import tracemalloc
from pathlib import Path

import pytest
from dragoman_client import (
    Document,
    FileProgress,
    ServerUnavailable,
    Translation,
)
from hypothesis import given
from hypothesis import strategies as st
from stand_ins import FakeTransport, Forgetful, translate_file, unavailable_after

BOOK = "Chapter 1\n\n    It was late. Nobody came.\n  He went home.\n\n\n\t* * *\r\n\r\nThe end."


def paragraphs(text: str, most_characters: int = 4000) -> list[str]:
    return list(Document(most_characters).paragraphs(io.BytesIO(text.encode()), "book"))


def loud() -> FakeTransport:
    """Translates to upper case and keeps inner white space, as the server does for split texts."""
    return FakeTransport(translate=str.upper)


@given(
    st.lists(st.sampled_from(["word ", "End. ", "\n", "\n\n", "\r\n", "\t", "é", "a", "“No!” "])),
    st.integers(min_value=1, max_value=40),
)
def test_joined_paragraphs_are_the_text(parts: list[str], most: int) -> None:
    text = "".join(parts)
    pieces = paragraphs(text, most)
    assert "".join(pieces) == text
    assert all(len(paragraph.strip()) <= most for paragraph in pieces)
    assert all(pieces)


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [
        ("One.\n\nTwo.\n \n\nThree.", 99, ["One.\n\n", "Two.\n \n\n", "Three."]),
        ("One two.\nThree four", 12, ["One two.\n", "Three four"]),
        ("This ends. That goes on", 16, ["This ends. ", "That goes on"]),
        ("I see Mr. Dr. Smith now", 16, ["I see Mr. Dr. ", "Smith now"]),
        ("one two\nthree four", 13, ["one two\n", "three four"]),
        ("aaaaabbbbbcc", 5, ["aaaaa", "bbbbb", "cc"]),
        ("\ufeffOne.", 9, ["One."]),
        ("", 9, []),
    ],
)
def test_long_paragraphs_are_split_at_the_best_boundary(
    text: str, most: int, expected: list[str]
) -> None:
    assert paragraphs(text, most) == expected


def test_paragraphs_do_not_depend_on_the_size_of_chunks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = ("Ein Wörtchen. " * 30 + "\n\n") * 20
    whole = paragraphs(text, 200)
    for chunk_bytes in (1, 7, 1000):
        monkeypatch.setattr("dragoman_client.files.documents._CHUNK_BYTES", chunk_bytes)
        assert paragraphs(text, 200) == whole


def test_invalid_utf_8_is_reported_with_its_position() -> None:
    with pytest.raises(ValueError, match="book, byte 70002: not valid UTF-8"):
        list(Document().paragraphs(io.BytesIO(b"\xc3\xa9" + b"a" * 70_000 + b"\xff"), "book"))
    with pytest.raises(ValueError, match="most_characters is 0"):
        Document(0)


def test_a_document_keeps_its_layout(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(BOOK.encode())
    transport = loud()
    done = translate_file(source, target, transport, form=Document())
    assert done == FileProgress(4, 4)
    with pytest.raises(ValueError, match="split_sentences is False"):
        translate_file(source, target, form=Document(), split_sentences=False)
    assert target.read_bytes() == BOOK.upper().encode()
    assert all(request.inputs["split_sentences"][0] for request in transport.requests)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source", "target"]


def test_an_interrupted_document_is_resumed(tmp_path: Path) -> None:
    """Output after the last recorded paragraph is discarded."""
    source, target = tmp_path / "source", tmp_path / "target"
    text = "".join(f"Paragraph {n}.\n It has lines.\n\n" for n in range(50))
    source.write_text(text)
    with pytest.raises(ServerUnavailable):
        translate_file(source, target, unavailable_after(5, loud()), form=Document(), batch_size=4)
    partial = tmp_path / "target.partial"
    written, written_bytes = json.loads((tmp_path / "target.partial.json").read_text())["written"]
    assert partial.stat().st_size == written_bytes
    with partial.open("a") as file:
        file.write("PARAGRAPH")
    transport = loud()
    done = translate_file(source, target, transport, form=Document(), resume=True)
    assert (done.lines, done.resumed_at) == (50, written)
    assert 0 < written < 50
    assert sum(len(request.inputs["text_input"]) for request in transport.requests) == 50 - written
    assert target.read_text() == text.upper()


def test_a_document_with_lost_output_is_not_resumed(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("One.\n\n" * 50)
    with pytest.raises(ServerUnavailable):
        translate_file(source, target, unavailable_after(2, loud()), form=Document(), batch_size=4)
    (tmp_path / "target.partial").write_text("O")
    with pytest.raises(ValueError, match="shorter than recorded"):
        translate_file(source, target, loud(), form=Document(), resume=True)


def test_a_refused_paragraph_is_left_unchanged(tmp_path: Path) -> None:
    transport = loud()
    transport.refused = "Bad."
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("Good.\n\n  Bad.\n\nGood.\n")
    done = translate_file(source, target, transport, form=Document())
    assert (done.refused, target.read_text()) == (1, "GOOD.\n\n  Bad.\n\nGOOD.\n")
    assert Document().write(" \n", Translation("", 0, "stop")) == " \n"


@pytest.mark.parametrize(
    "end",
    [
        pytest.param("\n\n", id="paragraphs"),
        pytest.param("\n", id="lines", marks=pytest.mark.thorough),
        pytest.param(" ", id="one line"),
    ],
)
def test_three_times_the_text_takes_no_more_memory(tmp_path: Path, end: str) -> None:
    def peak_bytes(parts: int) -> int:
        source, target = tmp_path / "source", tmp_path / "target"
        words = "of a book that is long " * 10
        with source.open("w") as file:
            file.writelines(f"Sentence {n} {words}.{end}" for n in range(parts))
        tracemalloc.start()
        translate_file(source, target, Forgetful(translate=str.upper), form=Document(), force=True)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert target.read_text() == source.read_text().upper()
        return peak

    peak_bytes(100)  # warm-up: loads what is loaded only once
    few, many = peak_bytes(750), peak_bytes(2_250)
    assert many < 1.5 * few + 150_000
