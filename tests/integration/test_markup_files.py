"""Documents with markup through the real server, by the command and the client."""

from __future__ import annotations

import re
import shlex
import zipfile
from pathlib import Path

import html5lib
import pytest
from dragoman_client import FileProgress
from lxml import etree

from dragoman.cli import main
from tests import debian
from tests.browser import Page
from tests.conftest import REPOSITORY
from tests.doc_examples import blocks_with, run_code
from tests.servers import Served

PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>I see dogs &amp; cats.</title></head>
<body>
<!-- a comment -->
<p>I like <a href="/cars?a=1&b=2" title="The red car">red <b>cars</b></a> and <em>old houses</em>.
The <code>water()</code> function is called <strong>every day</strong>. Do you see it?</p>
<p class="notranslate">Dragoman stays <b>English</b>.</p><img src="a.png" alt="A small house">
<script>document.write("<b>untouched</b>")</script>
</body></html>
"""


DOCUMENTATION = (REPOSITORY / "docs" / "documents.md").read_text(encoding="utf-8")
EXAMPLES = REPOSITORY / "examples" / "documents"
PARTS = ("word/document.xml", "word/header1.xml", "word/footer1.xml", "word/footnotes.xml")
SCHEMAS = "usr/share/php/Symfony/Component/Translation/Resources/schemas"


@pytest.fixture(scope="module")
def translated(shipped: Served, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of what the commands of the documentation write."""
    folder = tmp_path_factory.mktemp("translated")
    for command in re.findall("^dragoman translate .*", DOCUMENTATION, re.MULTILINE):
        words = shlex.split(command)[1:]
        words[words.index("--input") + 1] = str(REPOSITORY / words[words.index("--input") + 1])
        words[words.index("--output") + 1] = str(folder / words[words.index("--output") + 1])
        assert main([*words, "--url", shipped.server.grpc_url]) == 0
    return folder


def test_the_office_example_is_translated_in_all_of_its_parts(translated: Path) -> None:
    with (
        zipfile.ZipFile(EXAMPLES / "library.docx") as source,
        zipfile.ZipFile(translated / "library.de.docx") as target,
    ):
        assert target.namelist() == source.namelist()
        texts = {name: "".join(etree.fromstring(target.read(name)).itertext()) for name in PARTS}
        for name, text in texts.items():
            assert text != "".join(etree.fromstring(source.read(name)).itertext())
        assert "Bibliothek" in texts["word/document.xml"]
        kept = {*source.namelist()} - {*PARTS, "word/styles.xml"}
        assert all(target.read(name) == source.read(name) for name in kept)


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.html"
    path.write_text(PAGE, encoding="utf-8")
    return path


def translate(shipped: Served, *words: object) -> int:
    url = shipped.server.grpc_url
    return main(["translate", "--url", url, "--to", "de", *map(str, words)])


def elements(page: str) -> list[str]:
    return [
        str(element.tag) for element in html5lib.parse(page, namespaceHTMLElements=False).iter()
    ]


def check_page(html: str) -> None:
    assert '<a href="/cars?a=1&b=2" title="Das rote Auto">rote <b>Autos</b></a>' in html
    assert "<em>alte Häuser</em>" in html
    assert "<code>water()</code>" in html
    assert "<title>Ich sehe Hunde &amp; Katzen.</title>" in html
    assert 'alt="Ein kleines Haus"' in html
    assert '<p class="notranslate">Dragoman stays <b>English</b>.</p>' in html
    assert '<script>document.write("<b>untouched</b>")</script>' in html
    assert sorted(elements(html)) == sorted(elements(PAGE))


def test_a_page(
    shipped: Served, page: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert translate(shipped, "--format", "html", "--input", page) == 0
    check_page(capfdbinary.readouterr().out.decode())
    target = tmp_path / "seite.html"
    assert translate(shipped, "--format", "auto", "--input", page, "--output", target) == 0
    check_page(target.read_text(encoding="utf-8"))
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["page.html", "seite.html"]


def test_the_example_page(translated: Path) -> None:
    before = (EXAMPLES / "library.html").read_text(encoding="utf-8")
    after = (translated / "library.de.html").read_text(encoding="utf-8")
    assert elements(after) == elements(before)
    for kept in re.findall(r"<style>.*?</style>|<script>.*?</script>|<!--.*?-->", before, re.S):
        assert kept in after
    for kept in (
        *('<html lang="en">', '<b translate="no">Old Mill Library</b>', "<code>new card</code>"),
        *('<q lang="la">Tolle, lege</q>', 'href="/books?sort=new&amp;page=1"', "10:00&ndash;18:00"),
    ):
        assert kept in before
        assert kept in after
    for part in (
        *("<b>3000 Bücher</b>", '<a href="/card">neue Karte</a>', "<strong>Tee</strong>"),
        *(">Neue Bücher</a>", 'placeholder="Suchen Sie ein Buch?"', "<button>Suche</button>"),
    ):
        assert part in after


TREE = """[...document.querySelectorAll("*")].map(one => [one.tagName, ...[...one.attributes]
  .map(attribute => attribute.name)].join(" "))"""


def test_the_example_page_in_a_browser(translated: Path, browser: Page) -> None:
    """Chromium builds the same tree for both pages, shows German, and logs no error."""
    trees, shown = [], []
    for path in (EXAMPLES / "library.html", translated / "library.de.html"):
        browser.open(path)
        trees.append(browser.evaluate(TREE))
        shown.append(browser.evaluate("document.body.innerText"))
    assert not browser.complaints
    assert trees[0] == trees[1]
    assert len(shown[0].split("\n")) == len(shown[1].split("\n"))
    assert "three thousand books" in shown[0]
    assert "3000 Bücher" in shown[1]


def test_the_example_of_xliff(translated: Path) -> None:
    for name, code, state in (
        ("app-1.2.de.xlf", '<g id="1" ctype="bold">den grünen Knopf</g>', "mt-suggestion"),
        ("app.de.xlf", 'dataRefEnd="be">den grünen Knopf</pc>', "machine-translation"),
    ):
        after = (translated / name).read_text(encoding="utf-8")
        assert code in after
        assert after.count("Garden Planner") == 3
        assert after.count(state) == 3
        assert after.count("Abbrechen") == 1


def test_the_examples_in_python(shipped: Served, translated: Path) -> None:
    examples = blocks_with("python", "", "docs/documents.md")
    for code, ending in zip(examples, ("html", "docx"), strict=True):
        target = translated / f"library.{ending}"
        code = code.replace("grpc://localhost:8001", shipped.server.grpc_url)
        code = code.replace(f'"library.{ending}"', repr(str(target)))
        run_code("python", code)
        assert target.read_bytes() == (translated / f"library.de.{ending}").read_bytes()


def test_the_example_folder_is_translated_like_its_files(translated: Path) -> None:
    folder = translated / "translated"
    assert {path.name for path in folder.iterdir()} == {path.name for path in EXAMPLES.iterdir()}
    names = (("library.docx", "library.de.docx"), ("app-2.0.xlf", "app.de.xlf"))
    for name, alone in names:
        assert (folder / name).read_bytes() == (translated / alone).read_bytes()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "source", "schema"),
    [
        ("app-1.2.de.xlf", "app-1.2.xlf", "xliff-core-1.2-strict.xsd"),
        ("app.de.xlf", "app-2.0.xlf", "xliff-core-2.0.xsd"),
    ],
)
def test_xliff_is_valid_by_the_official_schema(
    translated: Path, tmp_path: Path, shipped: Served, name: str, source: str, schema: str
) -> None:
    """Also with suggestions from a memory."""
    folder = debian.unpack(tmp_path, "php-symfony-translation") / SCHEMAS
    text = (folder / schema).read_text(encoding="utf-8")
    text = re.sub(r'schemaLocation="[^"]*/xml.xsd"', 'schemaLocation="xml.xsd"', text)
    (folder / schema).write_text(text, encoding="utf-8")
    checker = etree.XMLSchema(etree.parse(folder / schema))
    checker.assertValid(etree.parse(translated / name))
    memory, suggested = tmp_path / "memory.po", tmp_path / name
    memory.write_text('msgid "Do you like this planner? Tell your friends!"\nmsgstr "Und?"\n')
    words = ["--memory", str(memory), "--source-language", "en", "--target-language", "de"]
    words += ["--format", "xliff", "--input", str(EXAMPLES / source), "--output", str(suggested)]
    assert main(["translate", *words, "--url", shipped.server.grpc_url]) == 0
    assert ">Und?<" in suggested.read_text()
    checker.assertValid(etree.parse(suggested))


def test_the_client(shipped: Served, page: Path, tmp_path: Path) -> None:
    progress: list[FileProgress] = []
    target = tmp_path / "seite.html"
    done = shipped.http.translate_file(
        page, target, form="html", tell=progress.append, target_language="de"
    )
    check_page(target.read_text(encoding="utf-8"))
    assert (done.lines, done.of, done.refused) == (4, 4, 0)
    assert progress[-1].lines == 4
