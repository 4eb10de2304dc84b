"""The page of conclusions, the titles that code cites, and the programs that pages name."""

from __future__ import annotations

import re
import subprocess

from tests.conftest import REPOSITORY

PAGE = "docs/lab-notebook.md"
# Between the words of a title there may be the line break of a comment.
_TITLE = r"\"([A-Z0-9][^\"\n]*(?:\n[\s#*/]*[^\"\n]+)?)\""
_CITATION = re.compile(rf"{re.escape(PAGE)}(?:, {_TITLE}|: ((?:[^.]*?\[\w\] {_TITLE})+))?")


def titles() -> set[str]:
    page = (REPOSITORY / PAGE).read_text(encoding="utf-8")
    return set(re.findall(r"^##+ (.+)$", page, re.MULTILINE))


def cited(text: str) -> list[str]:
    """Titles after each mention of the page; an empty one for a mention without title."""
    names = []
    for match in _CITATION.finditer(text):
        words = re.findall(_TITLE, match[0]) or [""]
        names += [" ".join(re.sub(r"\n[\s#*/]*", " ", title).split()) for title in words]
    return names


def test_citations_are_read_across_lines() -> None:
    assert cited(f'# ({PAGE}, "One\n# two").') == ["One two"]
    assert cited(f'{PAGE}: [P] "One",\n    [S] "Two, and\n    three". [-]: none') == [
        *("One", "Two, and three"),
    ]
    assert cited(f"# ({PAGE}).") == [""]


def test_code_cites_the_page_by_titles_that_it_has() -> None:
    """Links of pages are checked when the site is built (tests/unit/deploy)."""
    listed = subprocess.run(
        ["git", "grep", "--name-only", "-I", PAGE, "--", ":!*.md", ":!deploy/documentation.py"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    files = set(listed.stdout.split()) - {"tests/unit/lab/test_notebook.py"}
    assert len(files) >= 5
    for file in files:
        text = (REPOSITORY / file).read_text(encoding="utf-8")
        assert set(cited(text)) <= titles(), file


def test_pages_name_programs_that_exist() -> None:
    command = re.compile(r"(?:python -m |`)(lab(?:\.\w+)+)")
    named = {
        (page.name, module)
        for page in (*(REPOSITORY / "docs").rglob("*.md"), REPOSITORY / "Makefile")
        for module in command.findall(page.read_text(encoding="utf-8"))
    }
    assert len(named) > 20
    for page, module in named:
        path = REPOSITORY / module.replace(".", "/")
        files = path.with_name(f"{path.name}.py"), path / "__main__.py"
        assert any(file.is_file() for file in files), (page, module)


def test_the_page_stays_short() -> None:
    assert len((REPOSITORY / PAGE).read_text(encoding="utf-8").splitlines()) <= 350
