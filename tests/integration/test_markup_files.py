"""Documents with markup through the real server, by the command and the client."""

from __future__ import annotations

from pathlib import Path

import html5lib
import pytest
from dragoman_client import FileProgress

from dragoman.cli import main
from tests.integration.conftest import Served

PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>My garden &amp; my house</title></head>
<body>
<!-- a comment -->
<p>I like <a href="/cars?a=1&b=2" title="The red car">red <b>cars</b></a> and <em>old houses</em>.
The <code>water()</code> function is called <strong>every day</strong>. Do you see it?</p>
<p class="notranslate">Dragoman stays <b>English</b>.</p><img src="a.png" alt="A small dog">
<script>document.write("<b>untouched</b>")</script>
</body></html>
"""
XLIFF = """<?xml version="1.0" encoding="UTF-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file source-language="en"
 target-language="de" original="a" datatype="plaintext"><body>
<trans-unit id="1"><source>Press <g id="1">the red button</g> now<x id="2"/>.</source></trans-unit>
<trans-unit id="2" translate="no"><source>Key</source></trans-unit>
</body></file></xliff>
"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.html"
    path.write_text(PAGE, encoding="utf-8")
    return path


def translate(shipped: Served, *words: object) -> int:
    url = shipped.server.grpc_url
    return main(["translate", "--url", url, "--to", "de", *map(str, words)])


def elements(page: str) -> list[str]:
    return [str(one.tag) for one in html5lib.parse(page, namespaceHTMLElements=False).iter()]


def check_page(found: str) -> None:
    assert '<a href="/cars?a=1&b=2" title="Das rote Auto">rote <b>Autos</b></a>' in found
    assert "<em>alte Häuser</em>" in found
    assert "<code>water()</code>" in found
    assert "<title>Mein Garten &amp; mein Haus</title>" in found
    assert 'alt="Ein kleiner Hund"' in found
    assert '<p class="notranslate">Dragoman stays <b>English</b>.</p>' in found
    assert '<script>document.write("<b>untouched</b>")</script>' in found
    assert sorted(elements(found)) == sorted(elements(PAGE))


def test_a_page(
    shipped: Served, page: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert translate(shipped, "--format", "html", "--input", page) == 0
    check_page(capfdbinary.readouterr().out.decode())
    target = tmp_path / "seite.html"
    assert translate(shipped, "--format", "auto", "--input", page, "--output", target) == 0
    check_page(target.read_text(encoding="utf-8"))
    assert [one.name for one in sorted(tmp_path.iterdir())] == ["page.html", "seite.html"]


def test_xliff(shipped: Served, tmp_path: Path) -> None:
    source, target = tmp_path / "a.xlf", tmp_path / "b.xlf"
    source.write_text(XLIFF, encoding="utf-8")
    assert translate(shipped, "--format", "xliff", "--input", source, "--output", target) == 0
    found = target.read_text(encoding="utf-8")
    assert '<g id="1">den roten Knopf</g>' in found
    assert found.count("<target") == 1
    for line in XLIFF.splitlines():
        assert line.partition("</trans-unit>")[0] in found


def test_the_client(shipped: Served, page: Path, tmp_path: Path) -> None:
    told: list[FileProgress] = []
    target = tmp_path / "seite.html"
    done = shipped.http.translate_file(
        page, target, form="html", tell=told.append, target_language="de"
    )
    check_page(target.read_text(encoding="utf-8"))
    assert (done.lines, done.of, done.refused) == (4, 4, 0)
    assert told[-1].lines == 4
    with pytest.raises(FileExistsError):
        shipped.grpc.translate_file(page, target, form="html", target_language="de")
    with pytest.raises(ValueError, match="resume: a document with markup"):
        shipped.grpc.translate_file(page, target, form="html", resume=True)
    with pytest.raises(ValueError, match="is to be read and to be written"):
        shipped.grpc.translate_file(page, page, form="html", force=True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--format", "xml"), "line 2, column 86: mismatched tag"),
        (("--format", "html", "--resume", "--output", "{target}"), "resume: a document"),
        (("--format", "html", "a"), "--format html: give an --input"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    shipped: Served,
    page: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    message: str,
) -> None:
    target = tmp_path / "target"
    given = [word.format(target=target) for word in words]
    assert translate(shipped, "--input", page, *given) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not target.exists()


def test_lines_that_look_like_markup_are_warned_about(
    shipped: Served, page: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert translate(shipped, "--input", page, "--output", tmp_path / "a") == 0
    assert "looks like html: keep its markup with --format html" in caplog.text
