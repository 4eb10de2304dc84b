"""The documentation as a site: it builds, and its search finds what people look for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from lunr import lunr
from lunr.index import Index

from deploy.documentation import with_site_links
from dragoman.cli import COMMANDS
from tests.conftest import REPOSITORY


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(
        command,
        cwd=REPOSITORY,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture(scope="module")
def search(site: Path) -> Index:
    """The site's index, with the weights of its own search."""
    documents = json.loads((site / "search" / "search_index.json").read_text())["docs"]
    fields = [{"field_name": "title", "boost": 1000}, {"field_name": "text"}]
    return lunr(
        ref="location",
        fields=fields,
        documents=[(document, {"boost": document.get("boost", 1)}) for document in documents],
    )


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("fine-tuning", "fine-tuning.html"),
        ("quantization", "configuration.html#quantization"),
        ("sampling", "options.html#sampling"),
        ("retry", "status-codes.html#retries"),
        ("+batch +size", "configuration.html#batch-size"),
        ("confidence", "scoring.html"),
        ("OPUS-MT", "import.html"),
        ("+rate +limit", "keys.html#rate-limits-and-quotas"),
    ],
)
def test_the_search_finds_the_page(words: str, page: str, search: Index) -> None:
    assert search.search(words)[0]["ref"].startswith(page)


def test_the_references_are_generated_from_the_code(site: Path) -> None:
    commands = (site / "command-line.html").read_text()
    assert all(f'<h2 id="{name}">' in commands for name in COMMANDS)
    assert "dragoman keys add" in commands
    python = (site / "python.html").read_text()
    for name in ("Translator.translate_stream", "AsyncTranslator.score", "ServerUnavailable"):
        assert f'id="dragoman_client.{name}"' in python


def test_no_page_loads_anything_from_other_hosts(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text()
        assert 'src="http' not in text
        assert '<link rel="stylesheet" href="http' not in text


def test_links_out_of_the_folder_become_page_links_or_names() -> None:
    text = "[client](../client/README.md#python), [code](../dragoman/cli.py), [keys](keys.md)"
    expected = "[client](python.md#python), code (`dragoman/cli.py`), [keys](keys.md)"
    assert with_site_links(text, "docs/api.md") == expected
    assert with_site_links("[keys](docs/keys.md)", "CHANGELOG.md") == "[keys](keys.md)"
    assert with_site_links("```\n[a](b)\n```", "docs/api.md") == "```\n[a](b)\n```"
    with pytest.raises(FileNotFoundError, match=r"docs/api\.md: links to \.\./nowhere"):
        with_site_links("[gone](../nowhere)", "docs/api.md")
