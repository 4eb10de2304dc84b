"""Packages for tests, and what must stay the same in the translation of one."""

from __future__ import annotations

import io
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from document_trees import xml_tree
from dragoman_client.core.request import Translation
from dragoman_client.files.document_translation import Excerpt, excerpts_of, parts_of, whole
from dragoman_client.files.file_formats import Reading, open_reader
from dragoman_documents.core.segments import Segment
from dragoman_documents.office.run_profiles import RunProfile
from translated_documents import Translator

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
A = "http://schemas.openxmlformats.org/drawingml/2006/main"
S = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
R = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
_RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
_OFFICE = "application/vnd.openxmlformats-officedocument."
_MAIN = {
    "docx": ("word/document.xml", f"{_OFFICE}wordprocessingml.document.main+xml"),
    "pptx": ("ppt/presentation.xml", f"{_OFFICE}presentationml.presentation.main+xml"),
    "xlsx": ("xl/workbook.xml", f"{_OFFICE}spreadsheetml.sheet.main+xml"),
}
_HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'


def archive(
    members: Mapping[str, str | bytes], *, stored: str = "mimetype", level: int | None = None
) -> bytes:
    """A ZIP archive with members of 1980, one of them not compressed.

    With the time of their making, tests with an archive as parameter would change their ids.
    """
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as written:
        for name, content in members.items():
            method = zipfile.ZIP_STORED if name == stored else zipfile.ZIP_DEFLATED
            written.writestr(zipfile.ZipInfo(name), content, method, level)
    return file.getvalue()


def office(kind: str, members: Mapping[str, str | bytes], types: Mapping[str, str]) -> bytes:
    """A package of Office Open XML.

    Args:
        kind: `docx`, `pptx` or `xlsx`.
        members: content of its members.
        types: type of each member, without what all of them begin and end with.
    """
    main, main_type = _MAIN[kind]
    listed = {main: main_type, **{name: f"{_OFFICE}{suffix}+xml" for name, suffix in types.items()}}
    overrides = "".join(
        f'<Override PartName="/{name}" ContentType="{content_type}"/>'
        for name, content_type in listed.items()
    )
    head = {
        "[Content_Types].xml": f'{_HEAD}<Types xmlns="{_TYPES}">{overrides}</Types>',
        "_rels/.rels": f'{_HEAD}<Relationships xmlns="{_RELATIONS}"><Relationship Id="r1" '
        f'Type="{R}/officeDocument" Target="{main}"/></Relationships>',
        "media/image.bin": bytes(range(256)) * 9,
    }
    return archive({**head, **members})


def docx(body: str, **parts: str) -> bytes:
    """A DOCX; the content of its other parts by name, such as `footnotes`."""
    others = {
        f"word/{name}.xml": f'{_HEAD}<w:{name} xmlns:w="{W}" xmlns:r="{R}">{content}</w:{name}>'
        for name, content in parts.items()
    }
    types = {f"word/{name}.xml": f"wordprocessingml.{name}" for name in parts}
    document = (
        f'{_HEAD}<w:document xmlns:w="{W}" xmlns:r="{R}"><w:body>{body}</w:body></w:document>'
    )
    return office("docx", {"word/document.xml": document, **others}, types)


def paragraph(*runs: str) -> str:
    return f"<w:p>{''.join(runs)}</w:p>"


def run(text: str, properties: str = "", attributes: str = "") -> str:
    space = ' xml:space="preserve"' if text != text.strip() else ""
    marks = f"<w:rPr>{properties}</w:rPr>" if properties else ""
    return f"<w:r{attributes}>{marks}<w:t{space}>{text}</w:t></w:r>"


def xlsx(strings: str, sheet: str = "", **others: str) -> bytes:
    """A workbook with shared strings, and the rows of its sheet."""
    members = {
        "xl/workbook.xml": f'{_HEAD}<workbook xmlns="{S}" xmlns:r="{R}"><sheets>'
        '<sheet name="Sheet1" sheetId="1" r:id="r1"/></sheets></workbook>',
        "xl/sharedStrings.xml": f'{_HEAD}<sst xmlns="{S}">{strings}</sst>',
        "xl/worksheets/sheet1.xml": f'{_HEAD}<worksheet xmlns="{S}">{sheet}</worksheet>',
        **others,
    }
    types = {
        "xl/sharedStrings.xml": "spreadsheetml.sharedStrings",
        "xl/worksheets/sheet1.xml": "spreadsheetml.worksheet",
        **dict.fromkeys(others, "spreadsheetml.table"),
    }
    return office("xlsx", members, types)


def segments(document: bytes, form: str, **languages: str) -> list[Segment]:
    """The texts of a package, with those in tags before the texts that contain them."""
    reader = open_reader(form, Reading(**languages))
    parts = parts_of(reader, io.BytesIO(document), "a document")
    return [segment for part in parts for segment in Excerpt.of([part]).segments]


def texts(document: bytes, form: str) -> list[str]:
    return [segment.text for segment in segments(document, form)]


def translated(document: bytes, form: str, translate: Translator, **reading: Any) -> bytes:
    """A package translated in excerpts, as programs do it."""
    reader, file = open_reader(form, Reading(**reading)), io.BytesIO(document)

    def answer(segment: Segment) -> Translation:
        segment.markup.check(segment.text)
        text, codes = translate(segment)
        return Translation(text, 0, "stop", codes=codes)

    written = (
        excerpt.written(map(answer, excerpt.segments))
        for excerpt in excerpts_of(parts_of(reader, file, "a document"))
    )
    return b"".join(whole(reader, file, written))


def members(document: bytes) -> dict[str, bytes]:
    """The content of the members of an archive that has no error."""
    with zipfile.ZipFile(io.BytesIO(document)) as opened:
        assert opened.testzip() is None
        return {info.filename: opened.read(info) for info in opened.infolist()}


def heads(document: bytes) -> list[tuple[Any, ...]]:
    """What the directory of an archive says of its members, except of their content."""
    with zipfile.ZipFile(io.BytesIO(document)) as opened:
        return [
            (info.filename, info.compress_type, info.date_time, info.external_attr, info.comment)
            for info in opened.infolist()
        ]


def paragraphs(
    content: bytes, profile: RunProfile, change: Callable[[str], str] = str
) -> list[tuple[str, Counter[Any]]]:
    """The text of each paragraph, and the elements in it other than runs of text.

    Each element is listed with the name of its parent and its attributes, except those that are
    texts. Raises `AssertionError` if a text, or a run, is at a place where it does not belong.
    """
    around = {*profile.paragraphs, *profile.wrappers, *profile.shells.values()}
    by_owner: dict[Any, tuple[list[str], Counter[Any]]] = {}

    def add(node: Any, owner: Any) -> None:
        stack = [(node, owner)]
        while stack:
            node, owner = stack.pop()
            if not isinstance(node.tag, str):
                continue
            name = _local(node.tag)
            parent = "" if node.getparent() is None else _local(node.getparent().tag)
            if name in profile.paragraphs:
                owner = node
                by_owner[owner] = ([], Counter())
            elif owner is not None and name in profile.dropped:
                continue
            elif owner is not None and name in profile.opaque:
                by_owner[owner][1][(parent, _bytes(node))] += 1
                continue
            elif owner is not None and name == profile.text:
                assert parent == profile.run or parent in profile.paragraphs
                by_owner[owner][0].append(node.text or "")
            elif owner is not None and name in profile.characters:
                by_owner[owner][0].append(profile.characters[name])
            elif owner is not None and name == profile.run:
                assert parent in around
            elif owner is not None and not (name == profile.properties and parent == profile.run):
                names = profile.attributes.get(name, ())
                values = {k: v for k, v in node.attrib.items() if k not in names}
                parent = "" if name in profile.ranges else parent  # widened
                by_owner[owner][1][(parent, node.tag, *sorted(values.items()))] += 1
            if not (owner is not None and name == profile.properties):
                stack += [(child, owner) for child in reversed(list(node))]

    add(xml_tree(content), None)
    return [(change("".join(text)), objects) for text, objects in by_owner.values()]


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


def _bytes(node: Any) -> bytes:
    from lxml import etree

    return bytes(etree.tostring(node, with_tail=False))
