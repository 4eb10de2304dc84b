"""Documents that are translated in the background."""

from __future__ import annotations

import asyncio
import re
import shutil
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from dragoman_client import ServerUnavailable
from dragoman_gateway.access.access import Access
from dragoman_gateway.core.caller import ANONYMOUS, NO_LIMITS, Caller, Limits
from dragoman_gateway.core.errors import (
    GatewayError,
    InvalidInput,
    KeyMissing,
    NotFound,
    QuotaUsedUp,
    TooLarge,
    TooManyRequests,
    Unavailable,
    Unsupported,
    WrongMediaType,
)
from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.jobs import job_queue as module
from dragoman_gateway.jobs.job import Job
from dragoman_gateway.jobs.jobs import Jobs
from dragoman_gateway.texts.readers import Readers, _Process

from tests.unit.gateway.texts.model_server import ModelServer, translations_of
from tests.unit.gateway.texts.test_translations import until

TO_GERMAN = {"source_language": "en", "target_language": "de"}
IDLE: list[_Process] = []
"""Readers that the tests of a module leave to the next one: starting one takes a quarter second."""


class Admission:
    """Stands in for `Access`."""

    def __init__(self) -> None:
        self.characters: list[int] = []
        self.refuses = False
        self.refunded: list[tuple[str, int, bool]] = []

    async def refund(self, caller: Caller, characters: int, _admitted_s: float) -> None:
        self.refunded.append((caller.name, characters, caller.limits == NO_LIMITS))

    @asynccontextmanager
    async def admitted(self, _caller: Caller, characters: int) -> AsyncIterator[None]:
        if self.refuses:
            raise QuotaUsedUp("used up")
        self.characters.append(characters)
        yield


class Office:
    """Jobs over a server in memory."""

    def __init__(self, folder: Path | None, server: ModelServer, **given: Any) -> None:
        self.server, self.access = server, Admission()
        settings = GatewaySettings(folder=folder, **given)
        self.readers = Readers(settings)
        self.readers._idle = IDLE
        self.jobs = Jobs(settings, cast(Access, self.access), translations_of(server), self.readers)

    async def submit(
        self,
        *parts: bytes,
        name: str = "a.txt",
        caller: Caller = ANONYMOUS,
        columns: Sequence[str] = (),
        titles: bool = False,
        **options: Any,
    ) -> Job:
        upload = self.jobs.upload()
        try:
            for part in parts:
                upload.write(part)
            upload.seek(0)
            return await self.jobs.submit(
                caller, name, upload, {**TO_GERMAN, **options}, columns=columns, titles=titles
            )
        finally:
            upload.close()

    async def result(self, job: Job) -> bytes:
        done = await self.jobs.get(ANONYMOUS, job.id, wait_s=20)
        assert (done.state, done.done, done.error) == ("done", 1.0, None)
        return (await self.jobs.result(ANONYMOUS, job.id)).read_bytes()


@asynccontextmanager
async def opened(
    folder: Path | None = None, server: ModelServer | None = None, **given: Any
) -> AsyncIterator[Office]:
    office = Office(folder, server or ModelServer(), **given)
    await office.jobs.open()
    try:
        yield office
    finally:
        await office.jobs.close()


async def interrupted(folder: Path, server: ModelServer, content: bytes, name: str) -> Job:
    """A document whose translation has begun when its gateway stops; the server goes on."""
    async with opened(folder, server) as office:
        job_id = (await office.submit(content, name=name)).id
        await until(lambda: len(server.asked) >= 3)
        server.let_go.clear()
        await asyncio.sleep(0.05)
        job = await office.jobs.get(ANONYMOUS, job_id)
        assert job.state == "translating"
        assert 0 < job.done < 1
    server.let_go.set()
    server.asked.clear()
    return job


@pytest.fixture
async def office() -> AsyncIterator[Office]:
    async with opened() as office:
        yield office


async def wanted(text: str) -> str:
    (translation,) = await ModelServer().translate_checked([text], TO_GERMAN)
    return translation.text


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
async def test_a_document_keeps_its_lines(office: Office, bom: bytes, end: str) -> None:
    lines = ["Hello there.", "", "", "  - A point.", "How are you? Fine.", " ", "1. Ä", "...", ""]
    text = end.join(lines)
    content = bom + text.encode()
    parts = [content[:16], content[16:30], content[30:]]
    job = await office.submit(*parts, name="C:\\dir/my file.TXT")
    assert (job.file_name, job.characters) == ("my file.TXT", len(text))
    document = await office.result(job)
    assert document.startswith(bom)
    assert document.removeprefix(bom).decode() == await wanted(text)
    assert document.count(end.encode()) == len(lines) - 1
    assert office.access.characters == [len(text)]


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf", b"\n \n", b"one line"])
async def test_small_documents(office: Office, content: bytes) -> None:
    document = await office.result(await office.submit(content))
    bom = b"\xef\xbb\xbf"
    text = content.removeprefix(bom).decode()
    assert document == content[: len(content) - len(text)] + (await wanted(text)).encode()


async def test_a_large_document_is_sent_in_parts_and_reports_progress(office: Office) -> None:
    async def wanted_of(text: str) -> str:
        translation = await wanted("Paragraph one of them is here.")
        return text.replace("Paragraph one of them is here.", translation)

    office.server.let_go.clear()
    text = "Paragraph one of them is here.\n\n" * 3000
    job = await office.submit(text.encode())
    await until(lambda: len(office.server.asked) == 1)
    status = await office.jobs.get(ANONYMOUS, job.id)
    assert (status.state, status.done, status.seconds_remaining) == ("translating", 0.0, None)
    waiting = asyncio.create_task(office.jobs.get(ANONYMOUS, job.id, wait_s=20))
    begin_s = asyncio.get_running_loop().time()
    assert (await office.jobs.get(ANONYMOUS, job.id, wait_s=0.05)).state == "translating"
    assert 0.04 < asyncio.get_running_loop().time() - begin_s < 2
    office.server.let_go.set()
    assert (await waiting).state == "done"
    assert (await office.result(job)).decode() == await wanted_of(text)
    # The cache answers the rest.
    assert max(map(len, office.server.texts)) < 100


async def test_a_restart_resumes_documents(tmp_path: Path) -> None:
    paragraphs = [f"This is paragraph {number} of all." for number in range(500)]
    server = ModelServer()
    job = await interrupted(tmp_path, server, "\n\n".join(paragraphs).encode(), "a.txt")
    (folder,) = (tmp_path / "documents").iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    with (folder / "partial").open("ab") as file:
        file.write(b"half a wri")  # as after a crash
    (tmp_path / "documents" / ("a" * 32)).mkdir()  # of an upload
    (tmp_path / "documents" / ("a" * 32) / "source").write_text("Hel")
    async with opened(tmp_path, server) as office:
        resumed = await office.jobs.get(ANONYMOUS, job.id)
        assert 0 < resumed.done < 1
        document = await office.result(resumed)
        assert document.decode() == "\n\n".join(
            [await wanted(paragraph) for paragraph in paragraphs]
        )
        assert 0 < len(server.texts) < len(paragraphs)
    assert [path.name for path in (tmp_path / "documents").iterdir()] == [job.id]
    async with opened(tmp_path, server) as office:
        (job,) = await office.jobs.all(ANONYMOUS)
        assert job.state == "done"
        await office.result(job)


async def test_a_document_is_not_resumed_after_two_unclean_ends(tmp_path: Path) -> None:
    """Its translation may be the cause of them. A clean end does not count."""
    server = ModelServer()
    ids: list[str] = []

    async def killed(folder: Path, begin: Callable[[Office], Awaitable[None]]) -> Path:
        """Run until documents are being translated; returns what a killed gateway leaves."""
        left = folder.with_name(folder.name + "-killed")
        server.let_go.clear()
        async with opened(folder, server, document_workers=1) as office:
            await begin(office)
            await until(lambda: len(server.asked) >= 1)
            shutil.copytree(folder, left)
        server.asked.clear()
        return left

    async def submit(office: Office) -> None:
        ids.extend([(await office.submit(b"Hello.")).id for _ in range(2)])

    async def resumed(office: Office) -> None:
        for job_id in ids:
            assert (await office.jobs.get(ANONYMOUS, job_id)).error is None

    folder = await killed(tmp_path / "state", submit)
    for _ in range(3):
        await killed(folder, resumed)  # stops in order after the copy
        shutil.rmtree(folder.with_name(folder.name + "-killed"))
    folder = await killed(folder, resumed)
    server.let_go.set()
    async with opened(folder, server) as office:
        first, second = [await office.jobs.get(ANONYMOUS, job_id) for job_id in ids]
        assert first.state == "failed"
        assert "ended 2 times while it translated this document" in str(first.error)
        assert len(office.access.refunded) == 1
        assert await office.result(second)


async def test_a_document_is_removed_when_it_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SWEEP_S", 0.02)
    async with opened(document_expiry_s=0.5) as office:
        job = await office.submit(b"Hello.")
        assert await office.result(job)
        path = await office.jobs.result(ANONYMOUS, job.id)
        await until(lambda: not path.parent.exists())
        with pytest.raises(NotFound):
            await office.jobs.get(ANONYMOUS, job.id)


async def test_a_document_can_be_cancelled(office: Office) -> None:
    office.server.let_go.clear()
    jobs = [await office.submit(f"Hello {number}.".encode()) for number in range(4)]
    await until(lambda: len(office.server.texts) == 2)
    waiting = asyncio.create_task(office.jobs.get(ANONYMOUS, jobs[0].id, wait_s=20))
    await asyncio.sleep(0)
    for job in (jobs[0], jobs[3]):
        await office.jobs.delete(ANONYMOUS, job.id)
    assert "Hello 3." not in office.server.texts
    with pytest.raises(NotFound):
        await waiting
    office.server.let_go.set()
    for job in jobs[1:3]:
        await office.result(job)
    assert sorted(office.server.texts) == ["Hello 0.", "Hello 1.", "Hello 2."]


async def test_other_callers_do_not_see_a_document(office: Office) -> None:
    job = await office.submit(b"Hello.")
    other = Caller("bert", "bert")
    assert await office.jobs.all(other) == []
    for call in (
        office.jobs.get(other, job.id),
        office.jobs.result(other, job.id),
        office.jobs.delete(other, job.id),
    ):
        with pytest.raises(NotFound, match="there is no document"):
            await call
    assert [listed.id for listed in await office.jobs.all(ANONYMOUS)] == [job.id]
    await office.result(job)


async def test_owners_take_turns(office: Office) -> None:
    office.server.let_go.clear()
    anna, bert = Caller("anna", "anna"), Caller("bert", "bert")
    for number in range(3):
        await office.submit(f"Anna {number}.".encode(), caller=anna)
    await office.submit(b"Bert.", caller=bert)
    await until(lambda: len(office.server.texts) == 2)
    await asyncio.sleep(0.05)
    assert sorted(office.server.texts) == ["Anna 0.", "Bert."]  # each has one of both places
    office.server.let_go.set()
    await until(lambda: len(office.server.texts) == 4)


async def test_the_server_may_be_unavailable_for_a_while(office: Office) -> None:
    office.server.failing = [ServerUnavailable("away")]
    assert (await office.result(await office.submit(b"Hello."))).decode() == await wanted("Hello.")


PAGE = """<!doctype html><meta charset=iso-8859-1><title>Caf\xe9</title>
<p>I like <a href="/x?a=1&b=2" title="A car">red <b>cars</b></a>, 2 &lt; 3.<p>Hello there.
<script>if (a < b) c("Hello there.")</script><p>Hello there."""


async def test_only_texts_change_in_a_document_with_markup(office: Office) -> None:
    job = await office.submit(PAGE.encode("latin-1"), name="page.HTML")
    texts = ["Caf\xe9", "A car", "I like red cars, 2 < 3.", "Hello there.", "Hello there."]
    assert (job.file_name, job.characters) == ("page.HTML", sum(map(len, texts)))
    html = (await office.result(job)).decode("latin-1")
    assert sorted(set(office.server.texts)) == sorted(set(texts))
    cafe, car = await wanted("Caf\xe9"), await wanted("A car")
    hello = await wanted("Hello there.")
    assert f"<title>{cafe}</title>" in html
    assert f'<a href="/x?a=1&b=2" title="{car}">' in html
    assert html.count(f"<p>{hello}") == 2
    assert '<script>if (a < b) c("Hello there.")</script>' in html
    assert re.findall("<[^>]*>", re.sub('"A car"|"[^"]* car A[^"]*"', "", html))
    # Texts without elements came from the cache; the one with a link did not.
    before = len(office.server.asked)
    await office.result(await office.submit(PAGE.encode("latin-1"), name="again.htm"))
    assert office.server.asked[before:] == [["I like red cars, 2 < 3."]]


@pytest.mark.parametrize(
    ("name", "document", "text"),
    [
        ("a.xhtml", "<html xmlns='http://www.w3.org/1999/xhtml'><p>{}</p></html>", "Hello."),
        (
            "a.xml",
            "<?xml version='1.0' encoding='utf-16'?>\r\n<a><b>{}</b><b>1</b></a>",
            "Hi \xe9.",
        ),
        ("a.svg", "<svg xmlns='http://www.w3.org/2000/svg'><text x='1'>{}</text></svg>", "Hello."),
        ("a.resx", "<root><data name='A'><value>{}</value></data></root>", "Hello {0}."),
        ("a.dita", "<topic id='a'><title>{}</title></topic>", "Hello."),
        ("a.txt", "<html><p>{}", "Hello."),
    ],
)
async def test_formats_are_found_by_name_and_content(
    office: Office, name: str, document: str, text: str
) -> None:
    encoding = "utf-16" if "utf-16" in document else "utf-8"
    job = await office.submit(document.format(text).encode(encoding), name=name)
    assert job.characters == len(text)
    written = await office.result(job)
    assert written.decode(encoding) == document.format(await wanted(text))
    assert office.server.texts == [text]


UNITS = "<file source-language='en' original='a' datatype='b'{}><body>{}</body></file>"
XLIFF = "<xliff version='1.2' xmlns='urn:oasis:names:tc:xliff:document:1.2'>{}</xliff>"


@pytest.mark.parametrize(
    ("name", "document", "written"),
    [
        (
            "a.xlf",
            XLIFF.format(UNITS).format("", "<trans-unit id='1'><source>Hi.</source></trans-unit>"),
            [' target-language="de"', "<source>Hi.</source><target ", ">{}</target>"],
        ),
        (
            "a.ts",
            "<TS><context><message><source>Hi.</source><translation type='unfinished'/></message>"
            "</context></TS>",
            ['language="de"', "<source>Hi.</source><translation ", ">{}</translation>"],
        ),
        (
            "a.tmx",
            "<tmx version='1.4'><header srclang='en'/><body><tu><tuv xml:lang='en'><seg>Hi.</seg>"
            "</tuv></tu></body></tmx>",
            ["<seg>Hi.</seg></tuv>", '<tuv xml:lang="de"><seg>{}</seg></tuv>'],
        ),
    ],
)
async def test_translations_are_put_beside_texts_if_the_format_has_both(
    office: Office, name: str, document: str, written: list[str]
) -> None:
    # The target language is not given: the server's own is used.
    job = await office.submit(document.encode(), name=name, target_language=None)
    translated = (await office.result(job)).decode()
    hi = await wanted("Hi.")
    for part in written:
        assert part.format(hi) in translated, translated


async def test_a_restart_resumes_a_document_with_markup(tmp_path: Path) -> None:
    texts = [f"This is the <b>paragraph</b> {number} of all." for number in range(1000)]
    page = "\n".join(f"<p>{text}</p>" for text in texts)
    server = ModelServer()
    job = await interrupted(tmp_path, server, page.encode(), "a.html")
    assert job.seconds_remaining
    async with opened(tmp_path, server) as office:
        document = (await office.result(job)).decode()
        assert 0 < len(server.texts) < len(texts)
        for line, text in zip(document.splitlines(), texts, strict=True):
            said = await wanted(re.sub("<[^>]*>", "", text))
            assert re.sub("<[^>]*>", "", line) == said
            assert re.findall("<[^>]*>", line) == ["<p>", "<b>", "</b>", "</p>"]


async def test_a_refused_text_of_a_document_with_markup_stays_unchanged(office: Office) -> None:
    page = "<p>Hi.</p><p>This is <i>refused</i>.</p><p>It is refused.</p><p>So <i>is</i> it.</p>"
    html = (await office.result(await office.submit(page.encode(), name="a.html"))).decode()
    assert "<p>This is <i>refused</i>.</p><p>It is refused.</p>" in html
    assert html.startswith(f"<p>{await wanted('Hi.')}</p>")
    assert await wanted("So is it.") in re.sub("<[^>]*>", "", html)


async def test_refused_lines_stay_unchanged(office: Office) -> None:
    job = await office.submit(b"Hello.\n\n  This is refused. \n\nBye.\n")
    document = await office.result(job)
    assert (await office.jobs.get(ANONYMOUS, job.id)).left == {"refused": 1}
    hello, bye = await wanted("Hello."), await wanted("Bye.")
    assert document.decode() == f"{hello}\n\n  This is refused. \n\n{bye}\n"


@pytest.mark.parametrize(
    ("content", "given", "error", "message"),
    [
        (b"x", {"name": "a.pages"}, WrongMediaType, r"extension '\.pages'"),
        (b"x", {"name": "txt"}, WrongMediaType, r"give \.txt, \.html, .*\.xliff"),
        (
            b"%PDF",
            {"name": "a.pdf"},
            WrongMediaType,
            r"^a PDF is not translated: translate the doc",
        ),
        (b"x", {"name": "a.doc"}, WrongMediaType, r"by soffice --convert-to docx"),
        (
            b"<a>\n<b></a>",
            {"name": "a.xml"},
            InvalidInput,
            "^the document is not valid XML: line 2, column 6: mismatched tag$",
        ),
        (b"<a>", {"name": "a.xliff"}, InvalidInput, "not valid XLIFF: line 1, column 4"),
        (b"const a: number = 1;", {"name": "a.svg"}, InvalidInput, "not valid XML: line 1"),
        (b"\xff<a/>", {"name": "a.svg"}, InvalidInput, "not valid XML"),
        (
            b"<!DOCTYPE a [<!ENTITY b SYSTEM '/etc/passwd'>]><a>&b;</a>",
            {"name": "a.xml"},
            InvalidInput,
            "entity b is in another file",
        ),
        (
            b"<p>x",
            {"name": "a.html", "temperature": 1.0, "seed": 1},
            InvalidInput,
            "temperature: not with a document in html",
        ),
        (b"x" * 1001, {}, TooLarge, "more than 1,000 bytes"),
        (b"Sch\xf6n", {}, InvalidInput, "^the document, byte 3: not valid UTF-8: convert"),
        (b"x\xc3", {}, InvalidInput, "^the document, byte 1: not valid UTF-8: convert"),
        ("x".encode("utf-16"), {}, InvalidInput, "^the document, byte 0: not valid UTF-8: convert"),
        (b"x", {"beam": 1}, InvalidInput, "unknown option 'beam'"),
        (b"x", {"split_sentences": False}, InvalidInput, "split_sentences"),
        (b"x", {"return_alignments": "hard"}, InvalidInput, "has no alignments"),
        (
            b"x",
            {"target_language": "xx"},
            InvalidInput,
            "from 'en' into 'xx': it translates en-de,",
        ),
        (b"x", {"source_language": "auto", "target_language": "fr"}, InvalidInput, "into 'fr'"),
        (b"x", {"source_language": "de"}, InvalidInput, "from 'de' into 'de'"),
        (b"x", {"glossary_ids": ["no"]}, NotFound, "no glossary 'no'"),
        (
            "Das ist ein schöner Tag heute.".encode(),
            {"source_language": "auto"},
            InvalidInput,
            "seems to be in 'de' already, the target language",
        ),
        (
            "Это русский текст, который никто не понимает.".encode(),
            {"source_language": "auto"},
            InvalidInput,
            r"^the document seems to be in 'ru', .* \(from: en\); if this is wrong, give source_",
        ),
    ],
)
async def test_an_invalid_document_or_option_is_refused(
    content: bytes, given: dict[str, Any], error: type[GatewayError], message: str, tmp_path: Path
) -> None:
    async with opened(tmp_path, file_bytes=1000) as office:
        with pytest.raises(error, match=message):
            await office.submit(content, **given)
        assert await office.jobs.all(ANONYMOUS) == []
        assert not list((tmp_path / "documents").iterdir())
        assert office.access.characters == []


async def test_a_refused_caller_leaves_no_document(tmp_path: Path) -> None:
    async with opened(tmp_path) as office:
        office.access.refuses = True
        with pytest.raises(QuotaUsedUp):
            await office.submit(b"Hello.")
        assert not list((tmp_path / "documents").iterdir())


@pytest.mark.parametrize(
    "given",
    [
        *({"document_number": 2}, {"document_bytes": 5000}),
        *({"document_number_per_caller": 2}, {"document_bytes_per_caller": 5000}),
    ],
)
async def test_a_full_store_refuses_documents(given: dict[str, Any]) -> None:
    async with opened(**given) as office:
        content = b"word " * 200
        jobs = [await office.submit(content) for _ in range(2)]
        with pytest.raises(TooManyRequests):
            await office.submit(content)
        await office.result(jobs[0])
        await office.jobs.delete(ANONYMOUS, jobs[0].id)
        await office.submit(b"Bye.")


async def test_the_result_of_an_unfinished_document(office: Office) -> None:
    office.server.let_go.clear()
    job = await office.submit(b"Hello.")
    with pytest.raises(Unavailable, match="not translated yet"):
        await office.jobs.result(ANONYMOUS, job.id)


async def test_one_caller_leaves_space_for_others() -> None:
    async with opened(document_number_per_caller=1) as office:
        anna, bert = Caller("anna", "anna"), Caller("bert", "bert")
        await office.submit(b"Hello.", caller=anna)
        with pytest.raises(TooManyRequests, match="you have 1 documents"):
            await office.submit(b"Hello.", caller=anna)
        await office.submit(b"Hello.", caller=bert)


async def test_an_empty_document_counts_as_a_character(office: Office) -> None:
    await office.result(await office.submit(b""))
    assert office.access.characters == [1]


async def test_strangers_reach_a_document_only_by_its_id(office: Office) -> None:
    first = Caller("anonymous 1.2.3.4", limits=Limits(8), is_stranger=True)
    other = Caller("anonymous 5.6.7.8", limits=Limits(8), is_stranger=True)
    job = await office.submit(b"Hello.", caller=first)
    for caller in (first, other):
        with pytest.raises(KeyMissing, match="need a key"):
            await office.jobs.all(caller)
    assert (await office.jobs.get(first, job.id, wait_s=10)).state == "done"


async def test_only_files_made_by_jobs_are_removed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The folder may contain other files of the user, as with `--folder ~`."""
    documents = tmp_path / "documents"
    kept = [
        *("letters/a.txt", f"{'a' * 32}/a.txt", f"{'b' * 32}/job.json", "notes.txt"),
        *(f"{'c' * 31}/source", f"{'D' * 32}/source"),
    ]
    for path in (*kept, f"{'e' * 32}/source"):
        (documents / path).parent.mkdir(parents=True, exist_ok=True)
        (documents / path).write_text("mine")
    async with opened(tmp_path) as office:
        assert await office.jobs.all(ANONYMOUS) == []
    files = [str(path.relative_to(documents)) for path in documents.rglob("*") if path.is_file()]
    assert sorted(files) == sorted(kept)
    assert not (documents / ("e" * 32)).exists()
    assert "a" * 32 in caplog.text
    assert "b" * 32 in caplog.text


async def test_one_of_two_gateways_with_the_same_folder_has_the_documents(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(tmp_path) as office:
        office.server.let_go.clear()
        job = await office.submit(b"Hello.")

        async def beside(other: Office) -> None:
            with pytest.raises(Unsupported, match="--folder"):
                await other.submit(b"Hello.")
            assert await other.jobs.all(ANONYMOUS) == []

        other = Office(tmp_path, ModelServer())
        await other.jobs.open()
        await beside(other)
        await other.jobs.close()
        assert "is used by another gateway" in caplog.text
        office.server.let_go.set()
        await office.result(job)
    async with opened(tmp_path) as office:
        assert len(await office.jobs.all(ANONYMOUS)) == 1


async def test_a_full_disk_ends_a_document_but_not_the_work(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(document_workers=1) as office:
        office.server.let_go.clear()
        job = await office.submit(b"Hello.")
        files = office.jobs._queue.files
        message = "no space left: secret text"
        with monkeypatch.context() as full:

            def write(_record: Any) -> None:
                raise OSError(28, message)

            full.setattr(files, "write", write)
            office.server.let_go.set()
            assert (await office.jobs.get(ANONYMOUS, job.id, wait_s=10)).state == "failed"
        await office.result(await office.submit(b"Bye."))
    assert "the disk is full" in caplog.text
    assert "secret" not in caplog.text


async def test_the_sweep_continues_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SWEEP_S", 0.02)
    async with opened(document_expiry_s=0.5) as office:
        remove, failures = office.jobs._queue.files.remove, [OSError()]

        def once(job_id: str) -> None:
            if failures:
                raise failures.pop()
            remove(job_id)

        monkeypatch.setattr(office.jobs._queue.files, "remove", once)
        jobs = [await office.submit(text) for text in (b"Hello.", b"Bye.")]
        await until(lambda: not failures and jobs[1].id not in office.jobs._queue.jobs)
        assert office.jobs._queue._sweeping is not None
        assert not office.jobs._queue._sweeping.done()


async def test_a_failed_document_costs_nothing_and_reports_the_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with opened() as office:
        office.server.failing = [RuntimeError("secret text")]
        caller = Caller("a", "a", Limits(8))
        job = await office.submit(b"Hello.", caller=caller)
        status = await office.jobs.get(caller, job.id, wait_s=10)
        assert (status.state, status.error is not None) == ("failed", True)
        with pytest.raises(GatewayError, match="see the gateway's log") as caught:
            await office.jobs.result(caller, job.id)
        assert "secret" not in str(caught.value)
        assert office.access.refunded == [("a", 6, False)]
        await office.result(await office.submit(b"Hello."))
        assert len(office.access.refunded) == 1
    assert "RuntimeError" in caplog.text
    assert "secret" not in caplog.text
