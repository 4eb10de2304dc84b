"""ZIP archives: what is copied, what is written, and what is refused."""

from __future__ import annotations

import contextlib
import io
import struct
import zipfile
from collections.abc import Callable
from random import Random

import pytest
from dragoman_client.files.document_translation import parts_of
from dragoman_client.files.file_formats import Reading, open_reader
from dragoman_documents.office.container import Container, frame
from hypothesis import given, settings
from hypothesis import strategies as st
from office_documents import archive, docx, heads, members, paragraph, run, translated
from translated_documents import swapped

TEXT = docx(paragraph(run("A red car.")))
MAIN = "word/document.xml"


def read(document: bytes, form: str = "docx") -> None:
    list(parts_of(open_reader(form, Reading()), io.BytesIO(document), "a"))


def with_members(*names: str, content: bytes = b"x") -> bytes:
    """The document with more members, which `zipfile` writes whatever their names are."""
    file = io.BytesIO(TEXT)
    with pytest.MonkeyPatch.context() as patch, zipfile.ZipFile(file, "a") as opened:
        patch.setattr(opened, "_writecheck", lambda _info: None)
        for name in names:
            opened.writestr(zipfile.ZipInfo(name), content)
    return file.getvalue()


def with_flag(document: bytes, flag: int) -> bytes:
    """The document with a flag of each member."""
    content = bytearray(document)
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = content.find(mark)
        while at >= 0:
            content[at + offset] |= flag
            at = content.find(mark, at + 4)
    return bytes(content)


def with_size(document: bytes, name: str, size: int) -> bytes:
    """The document whose directory says another size of a member."""
    content = bytearray(document)
    at = content.rfind(name.encode()) - 46
    struct.pack_into("<I", content, at + 24, size)
    return bytes(content)


def with_broken_content(document: bytes, name: str) -> bytes:
    """The document with a changed byte in the compressed content of a member."""
    content = bytearray(document)
    with zipfile.ZipFile(io.BytesIO(document)) as opened:
        info = opened.getinfo(name)
    content[info.header_offset + 30 + len(name) + info.compress_size // 2] ^= 0xFF
    return bytes(content)


def overlapping(document: bytes) -> bytes:
    """The document with a second entry for the content of a member."""
    with zipfile.ZipFile(io.BytesIO(document)) as opened:
        begin, number = opened.start_dir, len(opened.infolist())
    entry_end = document.index(b"PK\x01\x02", begin + 4)
    entry = document[begin:entry_end].replace(b"[Content_Types]", b"[Content_Typez]")
    directory = entry + document[begin:-22]
    end = struct.pack(
        "<4s4H2IH", b"PK\x05\x06", 0, 0, number + 1, number + 1, len(directory), begin, 0
    )
    return document[:begin] + directory + end


BOMB = docx("<w:p>" + "<w:r><w:t>a</w:t></w:r>" * 400_000 + "</w:p>")

HOSTILE = {
    "outside": (with_members("../../etc/passwd"), "lies outside of the archive"),
    "root": (with_members("/etc/passwd"), "lies outside of the archive"),
    "backslash": (with_members("..\\x"), "lies outside of the archive"),
    "twice": (with_members(MAIN), "'word/document.xml' is there twice"),
    "another case": (with_members("WORD/document.xml"), "is there twice"),
    "encrypted": (with_flag(TEXT, 1), "is encrypted: save it without a password"),
    "bomb": (BOMB, "document.xml, compressed more than 200:1"),
    "too large": (with_size(TEXT, "media/image.bin", 2 << 30), "more than 1073741824"),
    "checksum": (with_broken_content(TEXT, MAIN), "word/document.xml, damaged: "),
    "another size": (with_size(TEXT, MAIN, 5), "word/document.xml, damaged: Bad CRC-32"),
    "overlap": (overlapping(TEXT), "overlaps"),
    "truncated": (TEXT[:-30], "a damaged or incomplete ZIP archive"),
    "half": (TEXT[: len(TEXT) // 2], "a damaged or incomplete ZIP archive"),
    "empty archive": (b"PK\x05\x06" + bytes(18), "not an Office document"),
    "empty": (b"", "is not a ZIP archive"),
    "program": (b"#!/bin/sh\n" + TEXT, "is not a ZIP archive"),
    "no archive": (b"Hello.", "is not a ZIP archive"),
    "other archive": (archive({"a.txt": "Hello."}), "not an Office document"),
    "password": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(512), "save it without the password"),
    "another kind": (archive({"mimetype": "application/epub+zip"}), "no META-INF/container.xml"),
    "entities": (
        archive(members(TEXT) | {"[Content_Types].xml": '<!DOCTYPE a [<!ENTITY b "c">]><a/>'}),
        "it declares entities",
    ),
    "not well-formed": (
        archive(members(TEXT) | {MAIN: b"<w:document>"}),
        r"word/document.xml, line 1, column 13: no element found",
    ),
}


@pytest.mark.parametrize(("document", "message"), HOSTILE.values(), ids=list(HOSTILE))
def test_hostile_archives_are_refused_in_one_line(document: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        read(document)
    assert str(caught.value).startswith("a")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_package_of_another_kind_is_named() -> None:
    with pytest.raises(ValueError, match=r"^a: it is DOCX, not XLSX$"):
        read(TEXT, "xlsx")


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_any_damage_is_refused_or_kept(data: st.DataObject) -> None:
    content = bytearray(TEXT)
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    document = bytes(
        content[: data.draw(st.integers(0, len(content)))] if data.draw(st.booleans()) else content
    )
    with contextlib.suppress(ValueError):
        output = translated(document, "docx", swapped)
        assert zipfile.ZipFile(io.BytesIO(output)).namelist()


def test_a_damaged_directory_is_refused_or_kept() -> None:
    for position in range(len(TEXT) - 400, len(TEXT)):
        document = TEXT[:position] + b"\1" + TEXT[position + 1 :]
        with contextlib.suppress(ValueError):
            output = translated(document, "docx", swapped)
            assert zipfile.ZipFile(io.BytesIO(output)).namelist()


def wide(files: dict[str, bytes]) -> bytes:
    """An archive whose members have sizes in extra fields, as those above 4 GB have."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in files.items():
            with opened.open(name, "w", force_zip64=True) as member:
                member.write(content)
    return file.getvalue()


class Unseekable(io.BytesIO):
    """A file in which `zipfile` writes sizes after the content."""

    def seekable(self) -> bool:
        return False

    def seek(self, *_args: int) -> int:
        raise io.UnsupportedOperation

    def tell(self) -> int:
        raise io.UnsupportedOperation


def described(files: dict[str, bytes]) -> bytes:
    file = Unseekable()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in files.items():
            opened.writestr(name, content)
    return file.getvalue()


def commented(files: dict[str, bytes]) -> bytes:
    file = io.BytesIO(archive(files))
    with zipfile.ZipFile(file, "a") as opened:
        opened.comment = b"A comment"
    return file.getvalue()


def reversed_directory(files: dict[str, bytes]) -> bytes:
    """An archive whose directory has another order than its members."""
    content = archive(files)
    with zipfile.ZipFile(io.BytesIO(content)) as opened:
        begin = opened.start_dir
    entries = [b"PK\x01\x02" + rest for rest in content[begin:-22].split(b"PK\x01\x02")[1:]]
    return content[:begin] + b"".join(reversed(entries)) + content[-22:]


@pytest.mark.parametrize("write", [archive, wide, described, commented, reversed_directory])
@pytest.mark.parametrize("size", [0, 1, 70_000])
def test_members_that_do_not_change_are_copied(
    write: Callable[[dict[str, bytes]], bytes], size: int
) -> None:
    random = Random(size)
    files = {f"folder/{name}": random.randbytes(size) for name in "abcd"}
    files |= {"text": b"word " * size, "mimetype": b"none"}
    document = write(files)
    container = Container(io.BytesIO(document))
    assert b"".join(container.with_content([])) == document
    same = [frame(index, files[container.names[index]]) for index in sorted_indices(container)]
    assert b"".join(container.with_content(same)) == document
    new = {name: random.randbytes(size + 3) for name in random.sample([*files], 3)}
    frames = b""
    for index in sorted_indices(container):
        content = new.get(container.names[index], b"")
        at = random.randint(0, len(content))
        frames += frame(index, content[:at]) + frame(index, content[at:]) if content else b""
    chunks = [frames[at : at + 1000] for at in range(0, len(frames), 1000)]
    output = b"".join(container.with_content(chunks))
    assert members(output) == files | new
    assert heads(output) == heads(document)


def sorted_indices(container: Container) -> list[int]:
    return sorted(range(len(container.names)), key=lambda index: container.order[index])


@pytest.mark.parametrize("end", [-1, -7])
def test_incomplete_frames_are_refused(end: int) -> None:
    container = Container(io.BytesIO(TEXT))
    index = container.names.index(MAIN)
    with pytest.raises(ValueError, match="the translation is not complete"):
        list(container.with_content([frame(index, b"content")[:end]]))
    with pytest.raises(ValueError, match="belongs to another document"):
        list(container.with_content([frame(99, b"content")]))


def test_macros_and_packages_in_packages_are_kept() -> None:
    inner = with_members("vbaProject.bin", "word/embeddings/a.docx", content=TEXT)
    output = members(translated(inner, "docx", swapped))
    assert output["vbaProject.bin"] == output["word/embeddings/a.docx"] == TEXT
    assert output[MAIN] != members(TEXT)[MAIN]
