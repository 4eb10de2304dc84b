"""Office documents that are translated in the background."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

import pytest
from dragoman_gateway.core.caller import ANONYMOUS
from dragoman_gateway.core.errors import InvalidInput

from tests.unit.gateway.jobs.test_jobs import interrupted, opened, wanted
from tests.unit.gateway.texts.model_server import ModelServer

_W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml."


def document(paragraphs: list[str], footnotes: list[str]) -> bytes:
    """A DOCX with a picture."""
    parts = {"document": "document.main", "footnotes": "footnotes"}
    types = "".join(
        f'<Override PartName="/word/{name}.xml" ContentType="{_TYPE}{kind}+xml"/>'
        for name, kind in parts.items()
    )
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("[Content_Types].xml", f"<Types>{types}</Types>")
        for name, texts in (("document", paragraphs), ("footnotes", footnotes)):
            body = "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in texts)
            opened.writestr(f"word/{name}.xml", f'<w:{name} xmlns:w="{_W}">{body}</w:{name}>')
        opened.writestr("word/media/image1.png", bytes(range(256)) * 100)
    return file.getvalue()


def members(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as opened:
        assert opened.testzip() is None
        return {info.filename: opened.read(info) for info in opened.infolist()}


def texts(content: bytes) -> list[str]:
    return re.findall(r"<w:t[^>]*>([^<]*)", content.decode())


async def test_a_restart_resumes_a_package(tmp_path: Path) -> None:
    paragraphs = [f"This is the paragraph {number} of all." for number in range(900)]
    notes = [f"This is the footnote {number}." for number in range(300)]
    source = document(paragraphs, notes)
    server = ModelServer()
    job = await interrupted(tmp_path, server, source, "a.docx")
    assert job.characters == sum(map(len, paragraphs + notes))
    async with opened(tmp_path, server) as office:
        parts = members(await office.result(job))
        assert 0 < len(server.texts) < len(paragraphs + notes)
        for name, expected in (("document", paragraphs), ("footnotes", notes)):
            said = [await wanted(text) for text in expected]
            assert texts(parts[f"word/{name}.xml"]) == said
        before = members(source)
        assert list(parts) == list(before)
        assert parts["word/media/image1.png"] == before["word/media/image1.png"]
        assert {path.name for path in (tmp_path / "documents" / job.id).iterdir()} == {
            *("job.json", "result", "source"),
        }


@pytest.mark.parametrize("paragraphs", [[], ["12"], ["Hello."]])
async def test_small_packages(paragraphs: list[str]) -> None:
    source = document(paragraphs, [])
    async with opened() as office:
        content = await office.result(await office.submit(source, name="a.docx"))
        if paragraphs == ["Hello."]:
            assert texts(members(content)["word/document.xml"]) == [await wanted("Hello.")]
        else:
            assert content == source


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PK\x03\x04", r"^the document is not valid DOCX: a damaged or incomplete ZIP archive"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "soffice --convert-to docx"),
        (b"Hello.", "not a ZIP archive"),
        (document(["Hello."], [])[:-40], "damaged or incomplete"),
    ],
    ids=["begins", "old Office", "text", "cut"],  # a ZIP archive contains the time
)
async def test_what_is_no_package_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    async with opened(tmp_path) as office:
        with pytest.raises(InvalidInput, match=message):
            await office.submit(content, name="a.docx")
        assert not list((tmp_path / "documents").iterdir())


_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "application/vnd.openxmlformats-officedocument.spreadsheetml."


def workbook(strings: list[str], quoted: list[str]) -> bytes:
    """A workbook with strings, some of which a formula quotes, and a title."""
    types = {
        "/xl/workbook.xml": f"{_OFFICE}sheet.main",
        "/xl/sharedStrings.xml": f"{_OFFICE}sharedStrings",
        "/xl/worksheets/sheet1.xml": f"{_OFFICE}worksheet",
        "/docProps/core.xml": "application/vnd.openxmlformats-package.core-properties",
    }
    overrides = "".join(
        f'<Override PartName="{name}" ContentType="{kind}+xml"/>' for name, kind in types.items()
    )
    items = "".join(f"<si><t>{text}</t></si>" for text in strings)
    formulas = "".join(f"<c><f>IF(A1=&quot;{text}&quot;,1,2)</f></c>" for text in quoted)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("[Content_Types].xml", f"<Types>{overrides}</Types>")
        opened.writestr("xl/workbook.xml", f'<workbook xmlns="{_SHEET}"/>')
        opened.writestr("xl/sharedStrings.xml", f'<sst xmlns="{_SHEET}">{items}</sst>')
        sheet = f'<worksheet xmlns="{_SHEET}"><sheetData><row>{formulas}</row></sheetData>'
        opened.writestr("xl/worksheets/sheet1.xml", f"{sheet}</worksheet>")
        head = '<cp:coreProperties xmlns:cp="cp" xmlns:dc="dc">'
        title = f"{head}<dc:title>A title</dc:title></cp:coreProperties>"
        opened.writestr("docProps/core.xml", title)
    return file.getvalue()


async def test_a_job_counts_the_cells_that_formulas_quote(tmp_path: Path) -> None:
    """Also after a restart, before which some of them were counted."""
    strings = [f"{'Open' if number % 3 else 'The row'} {number} of all" for number in range(6000)]
    quoted = [text for text in strings if text.startswith("Open")]
    of_formulas = set(quoted)
    server = ModelServer()
    job = await interrupted(tmp_path, server, workbook(strings, quoted), "a.xlsx")
    assert 0 < job.left["quoted"] < len(quoted)
    async with opened(tmp_path, server) as office:
        content = await office.result(job)
        written = re.findall("<t>([^<]*)", members(content)["xl/sharedStrings.xml"].decode())
        assert [text for text in written if text in of_formulas] == quoted
        done = await office.jobs.get(ANONYMOUS, job.id)
        assert done.left == {"quoted": len(quoted)}


@pytest.mark.parametrize("titles", [False, True])
async def test_a_title_is_translated_on_request(titles: bool) -> None:
    async with opened() as office:
        job = await office.submit(workbook(["Hello."], []), name="a.xlsx", titles=titles)
        written = members(await office.result(job))["docProps/core.xml"].decode()
        title = await wanted("A title") if titles else "A title"
        assert f"<dc:title>{title}</dc:title>" in written
